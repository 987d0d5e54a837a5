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

// programs builds the programs that users run, once for all figures, and returns their directory. It must be called in
// the repository, and removePrograms at the end. Figures are measured one after the other.
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

// programsDir is where the programs are, empty before they are built.
var programsDir string

func removePrograms() {
	if programsDir != "" {
		_ = os.RemoveAll(programsDir)
		programsDir = ""
	}
}

// program is one of them, running.
type program struct {
	cmd *exec.Cmd
	url string // where it listens
	log string // the file
}

var saidURL = regexp.MustCompile(`"url":"(http://[^"]+)"`)

// start runs a program until stop, and returns when it has said where it listens.
func start(ctx context.Context, dir, name string, args ...string) (*program, error) {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // it has a descriptor of its own
	p := &program{log: log.Name()}
	p.cmd = exec.CommandContext(ctx, filepath.Join(dir, name), append(
		args, "--listen", "127.0.0.1:0", "--log-format", "json",
	)...)
	p.cmd.Env = append(os.Environ(), "PENSTOCK_NO_AUTH=true") // it is asked by this process alone
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); p.url == ""; time.Sleep(10 * time.Millisecond) {
		if m := saidURL.FindStringSubmatch(p.said()); m != nil {
			p.url = m[1]
		} else if time.Now().After(deadline) || ctx.Err() != nil {
			p.stop()
			return nil, fmt.Errorf("%s does not say where it listens: %s", name, p.said())
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

// resident is how many megabytes of it are in memory: VmRSS.
func (p *program) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("the memory of a process can be seen on Linux only: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("%s has ended: %s", p.cmd.Path, p.said())
}
