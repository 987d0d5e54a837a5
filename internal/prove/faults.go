package prove

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// Faults is the kind of fault injected into the processes of a run, drainers or ingresses.
type Faults string

// Kinds of faults.
const (
	NoFaults Faults = "none"
	Kill     Faults = "kill"    // SIGKILL, and start again
	Pause    Faults = "pause"   // SIGSTOP for longer than the lease, then SIGCONT
	Restart  Faults = "restart" // SIGTERM, wait, start again
)

// Mark is an injected fault.
type Mark struct {
	At      time.Duration // on the clock by which the run is judged
	Ended   time.Duration // when the killed process had ended; 0 for other faults
	Process int
	Fault   Faults
}

// faultInjector injects one fault after another, into each process in turn.
type faultInjector struct {
	fleet     *fleet
	now       func() time.Duration
	faults    Faults
	processes int
	every     time.Duration
	lease     time.Duration

	mu    sync.Mutex
	marks []Mark
}

// patience is the time that a process may take to end after a SIGTERM.
const patience = 30 * time.Second

// run injects faults until ctx ends. It completes a fault that has begun.
func (s *faultInjector) run(ctx context.Context) error {
	if s.faults == NoFaults {
		<-ctx.Done()
		return nil
	}
	for i := 0; ; i = (i + 1) % s.processes {
		if pause(ctx, s.every) != nil {
			return nil
		}
		s.mu.Lock()
		s.marks = append(s.marks, Mark{At: s.now(), Process: i, Fault: s.faults})
		s.mu.Unlock()
		if err := s.inject(ctx, i); err != nil {
			return fmt.Errorf("fault %s: %w", s.faults, err)
		}
	}
}

func (s *faultInjector) inject(ctx context.Context, i int) error {
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	switch s.faults {
	case Kill, Restart:
		signal := syscall.SIGKILL
		if s.faults == Restart {
			signal = syscall.SIGTERM
		}
		if err := s.fleet.signal(i, signal); err != nil {
			return err
		}
		if err := s.fleet.wait(waiting, i); err != nil {
			return err
		}
		s.ended()
		return s.fleet.start(i)
	case Pause:
		if err := s.fleet.signal(i, stopSignal); err != nil {
			return err
		}
		_ = pause(ctx, s.lease+time.Second) // even if the run ends meanwhile, the process continues
		return s.fleet.signal(i, continueSignal)
	}
	return nil
}

// ended notes that the process of the last fault has ended and has not been restarted yet.
func (s *faultInjector) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks[len(s.marks)-1].Ended = s.now()
}

func (s *faultInjector) injected() []Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mark(nil), s.marks...)
}
