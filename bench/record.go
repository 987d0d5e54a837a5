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

// Record is one run: its figures, the commit and the machine.
type Record struct {
	Date    string   `json:"date"` // on which the run began
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

// linkedCommit is the commit of this program, as git describes it; make sets it at link time.
var linkedCommit = unknownCommit

// A run of uncommitted code cannot be published or continued.
const (
	unknownCommit = "unknown"
	changed       = "-dirty" // suffix of git describe
)

var (
	modelLine    = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)
	redisVersion = regexp.MustCompile(`\bv=([0-9.]+)`)
)

// machineName describes the parts of the machine on which the figures depend.
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

// continueFrom adopts the figures of an earlier part of the same run. It never measures a figure again, so nobody can
// repeat one until they like it.
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
				"-add: %s is a run of another %s, %s, this is %s: leave out -add to start a new run, or name another file by -json",
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

// committed returns an error unless the measured code is a commit.
func (r *Record) committed() error {
	if r.Commit == unknownCommit || strings.HasSuffix(r.Commit, changed) {
		return fmt.Errorf("the measured code is %q, which is no commit: commit it, build (make build) and measure again",
			r.Commit)
	}
	return nil
}

// find returns the named figure, or nil.
func (r *Record) find(name string) *Result {
	for i := range r.Figures {
		if r.Figures[i].Name == name {
			return &r.Figures[i]
		}
	}
	return nil
}
