package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
)

// Record is one run: its figures, and the code and machine that they are of.
type Record struct {
	Date    string   `json:"date"` // on which it began
	Commit  string   `json:"commit"`
	Machine string   `json:"machine"`
	Rounds  int      `json:"rounds"`
	Scale   float64  `json:"scale"`
	Figures []Result `json:"figures"`
}

// newRecord returns the record of a run that begins now.
func newRecord(ctx context.Context, rounds int) (*Record, error) {
	machine, err := machineName(ctx)
	return &Record{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: linkedCommit, Machine: machine, Rounds: rounds, Scale: scale,
	}, err
}

// linkedCommit is the commit that this program was built from, as git describes it: make sets it when it links.
var linkedCommit = unknownCommit

// Code that no commit has cannot be published, nor added to.
const (
	unknownCommit = "unknown"
	changed       = "-dirty" // behind a commit, by git describe
)

var (
	modelLine    = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)
	redisVersion = regexp.MustCompile(`\bv=([0-9.]+)`)
)

// machineName returns what the figures depend on beside the code.
func machineName(ctx context.Context) (string, error) {
	server, err := redistest.Binary(ctx)
	if err != nil {
		return "", err
	}
	said, err := exec.CommandContext(ctx, server, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", server, err)
	}
	redis, model := "unknown", ""
	if m := redisVersion.FindSubmatch(said); m != nil {
		redis = string(m[1])
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := modelLine.FindSubmatch(info); m != nil {
			model = " of " + string(m[1])
		}
	}
	return fmt.Sprintf("%d cores%s, %s/%s, %s, Redis %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH,
		runtime.Version(), redis), nil
}

func readRecord(file string) (*Record, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &Record{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s is not a run that bench wrote: %w", file, err)
	}
	return r, nil
}

func (r *Record) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// continueFrom takes over the figures of an earlier part of the same run. A figure that the file has is not measured
// again: nobody can measure until a figure pleases.
func (r *Record) continueFrom(file string) error {
	was, err := readRecord(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range []struct{ field, was, is string }{
		{"commit", was.Commit, r.Commit},
		{"machine", was.Machine, r.Machine},
		{"rounds", fmt.Sprint(was.Rounds), fmt.Sprint(r.Rounds)},
		{"scale", fmt.Sprint(was.Scale), fmt.Sprint(r.Scale)},
	} {
		if c.was != c.is {
			return fmt.Errorf(
				"-add: %s is a run of another %s, %s, this is %s: leave out -add to begin anew, or name another file by -json",
				file, c.field, c.was, c.is,
			)
		}
	}
	if err := r.committed(); err != nil {
		return fmt.Errorf("-add: %w", err)
	}
	r.Date, r.Figures = was.Date, was.Figures
	return nil
}

// committed returns an error unless a commit names the code that was measured.
func (r *Record) committed() error {
	if r.Commit == unknownCommit || strings.HasSuffix(r.Commit, changed) {
		return fmt.Errorf("the code measured is %q, which nobody can look up: commit it, build (make build) and measure it",
			r.Commit)
	}
	return nil
}

// find returns the figure of that name, or nil.
func (r *Record) find(name string) *Result {
	for i := range r.Figures {
		if r.Figures[i].Name == name {
			return &r.Figures[i]
		}
	}
	return nil
}
