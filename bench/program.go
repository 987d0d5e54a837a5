package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// programs builds the users' programs, once for all figures, and returns their directory. Call it in the repository,
// and removePrograms at the end. Figures are measured one after the other.
func programs(ctx context.Context) (dir string, err error) {
	if programsDir != "" {
		return programsDir, nil
	}
	if dir, err = os.MkdirTemp("", "penstock-bench-"); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(
		ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/",
		"./cmd/ingress", "./cmd/drainer", "./cmd/penstock",
	)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(
			fmt.Errorf("building the programs (run this in the repository): %w: %s", err, out), os.RemoveAll(dir),
		)
	}
	programsDir = dir
	return dir, nil
}

// programsDir is the directory of the programs, or empty before they are built.
var programsDir string

func removePrograms() {
	if programsDir != "" {
		_ = os.RemoveAll(programsDir)
		programsDir = ""
	}
}

// program is a running program.
type program struct {
	cmd *exec.Cmd
	url string // its address
	log string // its log file
}

// saidURL is in the log of ingress and drainer, and in what penstock up prints.
var saidURL = regexp.MustCompile(`(?:"url":"|listening on )(http://[^"\s]+)`)

// start starts a program, which runs until stop, and returns once it has printed its address.
func start(ctx context.Context, dir, name string, args ...string) (*program, error) {
	args = append(args, "--listen", "127.0.0.1:0")
	if name != "penstock" {
		args = append(args, "--log-format", "json")
	}
	return startBare(ctx, dir, name, args...)
}

// startBare is start for a program that needs no flags.
func startBare(ctx context.Context, dir, name string, args ...string) (*program, error) {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the program has its own descriptor
	p := &program{log: log.Name()}
	p.cmd = exec.CommandContext(ctx, filepath.Join(dir, name), args...)
	p.cmd.Env = append(os.Environ(), "PENSTOCK_NO_AUTH=true") // only this process calls it
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); p.url == ""; time.Sleep(10 * time.Millisecond) {
		if m := saidURL.FindStringSubmatch(p.said()); m != nil {
			p.url = m[1]
		} else if time.Now().After(deadline) || ctx.Err() != nil {
			p.stop()
			return nil, fmt.Errorf("%s did not print its address: %s", name, p.said())
		}
	}
	return p, nil
}

func (p *program) said() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

func (p *program) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// resident returns the program's resident memory (VmRSS) in megabytes.
func (p *program) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("a process's memory is visible on Linux only: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("%s has ended: %s", p.cmd.Path, p.said())
}
