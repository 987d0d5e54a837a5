package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Command describes a process, such as a drainer. The process must end when its standard input does, so that a killed
// run leaves none behind.
type Command struct {
	Path string
	Args []string
	Env  []string // nil means this process's environment
}

// fleet has the processes of a run, usually drainers. It signals only them, each by the handle with which it was
// started.
type fleet struct {
	what    string // kind of process
	command func(i int) Command
	log     io.Writer

	mu      sync.Mutex
	members []*member
	closed  bool
}

type member struct {
	cmd    *exec.Cmd
	tether io.Closer
	done   chan struct{} // closed once it was waited for
	err    error         // its exit error; set before done is closed
}

// start starts or restarts process i.
func (f *fleet) start(i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("the run is over")
	}
	c := f.command(i)
	//nolint:noctx // it is ended by close, in order, or by its standard input when this process dies
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = c.Env
	cmd.Stdout, cmd.Stderr = f.log, f.log
	// A Ctrl-C at the terminal reaches only this process, which then ends the others in order.
	cmd.SysProcAttr = ownGroup()
	// The tether: nothing is written to it, and it closes when this process ends, in any way.
	tether, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s %d: %w", f.what, i, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s %d: %w", f.what, i, err)
	}
	m := &member{cmd: cmd, tether: tether, done: make(chan struct{})}
	go func() {
		m.err = cmd.Wait()
		close(m.done)
	}()
	for len(f.members) <= i {
		f.members = append(f.members, nil)
	}
	f.members[i] = m
	return nil
}

func (f *fleet) member(i int) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[i]
}

// pid returns the process id of process i.
func (f *fleet) pid(i int) int { return f.member(i).cmd.Process.Pid }

// signal sends a signal to process i if it still runs.
func (f *fleet) signal(i int, s syscall.Signal) error {
	m := f.member(i)
	if err := m.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s %d: %w", s, f.what, i, err)
	}
	return nil
}

// wait waits until process i has ended.
func (f *fleet) wait(ctx context.Context, i int) error {
	select {
	case <-f.member(i).done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s %d has not ended: %w", f.what, i, ctx.Err())
	}
}

var errEnded = errors.New("it exited without an error")

// allUp returns an error if a process ended by itself.
func (f *fleet) allUp() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, m := range f.members {
		select {
		case <-m.done:
			return fmt.Errorf(
				"%s %d ended by itself (its output is above, or visible with --verbose): %w", f.what, i, cmp.Or(m.err, errEnded),
			)
		default:
		}
	}
	return nil
}

// close ends all processes by SIGTERM, and by SIGKILL after the grace. A stopped process also gets SIGCONT, so that it
// can react.
func (f *fleet) close(grace time.Duration) {
	f.mu.Lock()
	f.closed = true
	members := f.members
	f.mu.Unlock()
	for _, m := range members {
		if m != nil {
			_ = m.cmd.Process.Signal(continueSignal) // errors here mean that it has ended
			_ = m.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	timeout := time.After(grace)
	for _, m := range members {
		if m == nil {
			continue
		}
		select {
		case <-m.done:
		case <-timeout:
			timeout = time.After(0) // for the others too
			_ = m.cmd.Process.Kill()
			<-m.done
		}
	}
}
