package memtest

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
	"sync"
	"time"

	"github.com/penstock/penstock/internal/test/transcript"
)

// Build builds a program of this module, such as ./cmd/ingress, into a directory with release flags, and returns its
// path. Root is the module's directory.
func Build(ctx context.Context, root, dir, pkg string) (string, error) {
	path := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", pkg, err, out)
	}
	return path, nil
}

// Program is a program that runs within a memory limit.
type Program struct {
	cmd   *exec.Cmd
	group *group // nil if control groups are not available
	limit int64
	log   transcript.Buffer
	ended chan struct{}
	peak  int64 // resident memory, as last seen
	mu    sync.Mutex
}

// Start runs a program within a memory limit. Without control groups the memory is only measured; How reports which
// applies.
func Start(ctx context.Context, limit int64, path string, args ...string) (*Program, error) {
	p := &Program{limit: limit, ended: make(chan struct{})}
	p.group = newGroup(limit)
	if p.group != nil {
		// The shell enters the group before it becomes the program.
		args = append([]string{"-c", `echo $$ > "$0" && exec "$@"`, p.group.procs(), path}, args...)
		path = "/bin/sh"
	}
	p.cmd = exec.CommandContext(ctx, path, args...)
	p.cmd.Env = withoutGo(os.Environ())
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		p.group.remove()
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the log and Alive show how it ended
		close(p.ended)
	}()
	go p.watch()
	return p, nil
}

// withoutGo removes variables that change how a Go program uses memory.
func withoutGo(env []string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, "GOMEMLIMIT=") && !strings.HasPrefix(v, "GOGC=") {
			out = append(out, v)
		}
	}
	return out
}

// watch records the peak of resident memory, which the kernel drops with the process.
func (p *Program) watch() {
	for {
		select {
		case <-p.ended:
			return
		case <-time.After(50 * time.Millisecond):
			p.look()
		}
	}
}

func (p *Program) look() {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64); err == nil {
				p.mu.Lock()
				p.peak = max(p.peak, kb<<10)
				p.mu.Unlock()
			}
		}
	}
}

// How returns how the limit is enforced.
func (p *Program) How() string {
	if p.group == nil {
		return "no control group could be made: measured by VmHWM alone"
	}
	return "in a control group of " + p.group.version
}

// Peak returns the peak of resident memory.
func (p *Program) Peak() int64 {
	p.look()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peak
}

// Exceeded returns an error if the program used more than its limit, or was killed for that.
func (p *Program) Exceeded() error {
	peak := p.Peak()
	select {
	case <-p.ended:
		return fmt.Errorf(
			"it ended by itself (%v) when %d MiB of %d were resident: %s", p.cmd.ProcessState, peak>>20, p.limit>>20, p.said(),
		)
	default:
	}
	if peak > p.limit {
		return fmt.Errorf("%d MiB were resident, of %d", peak>>20, p.limit>>20)
	}
	return nil
}

var saidURL = regexp.MustCompile(`url"?[=:]"?(https?://[^\s"]+)`)

// URL waits until the program logs its URL, and returns it.
func (p *Program) URL() (string, error) {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if m := saidURL.FindStringSubmatch(p.log.String()); m != nil {
			return m[1], nil
		}
		select {
		case <-p.ended:
			return "", errors.New("it ended: " + p.said())
		default:
		}
		if time.Now().After(deadline) {
			return "", errors.New("it does not say where it listens: " + p.said())
		}
	}
}

// Stop kills the program and removes its group.
func (p *Program) Stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	p.group.remove()
}

func (p *Program) said() string {
	return p.log.Tail(2000)
}
