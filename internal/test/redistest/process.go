package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A process is one run of redis-server. done is closed when it has ended and been reaped.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startProcess runs path with args, and appends its output to log. The process outlives ctx.
func startProcess(ctx context.Context, path string, args []string, dir string, log *os.File) (*process, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)

	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux kills the child when the *thread* that started it ends, so that thread has to last as long as the
		// child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log shows how it ended; often it was killed
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("redistest: start %s: %w", path, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends sig. A process that has already ended is not an error.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("redistest: signal %v to process %d: %w", sig, p.pid(), err)
	}
	return nil
}

// terminate stops the process in good order, and kills it after the grace period.
func (p *process) terminate(grace time.Duration) error {
	// A stopped process does not see SIGTERM before it is continued.
	if err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errors.Join(
			fmt.Errorf("redistest: process %d ignored SIGTERM for %v and was killed", p.pid(), grace), p.kill())
	}
}

// kill ends the process at once, stopped or not, and returns when it is gone.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}
