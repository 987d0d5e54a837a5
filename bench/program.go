package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// programs builds the programs that users run into a directory of its own, and returns
// that. It must be called in the repository.
func programs(ctx context.Context) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "penstock-bench-"); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "./cmd/ingress", "./cmd/drainer").CombinedOutput()
	if err != nil {
		return dir, fmt.Errorf("building ingress and drainer (run this in the repository): %w: %s", err, out)
	}
	return dir, nil
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
