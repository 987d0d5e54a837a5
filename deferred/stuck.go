package deferred

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// stuck has the subjects whose first job must become a dead letter but cannot: until it does, nothing behind it comes
// back.
type stuck struct {
	mu       sync.Mutex
	subjects map[string]error
}

func newStuck() *stuck { return &stuck{subjects: map[string]error{}} }

func (s *stuck) set(subject string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subjects[subject] = err
}

func (s *stuck) clear(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subjects, subject)
}

// first returns the smallest of the subjects, so that it stays the same, and the number of subjects.
func (s *stuck) first() (subject string, n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, why := range s.subjects {
		if err == nil || name < subject {
			subject, err = name, why
		}
	}
	return subject, len(s.subjects), err
}

// Stuck returns nil, or why jobs do not come back although there may be room. It means that the first of them must
// become a dead letter, and the stream of dead letters does not accept it. Only a process with a Readmitter on this
// Stream knows, for the queues whose way back it has now. It does not ask NATS. It recovers by itself when the stream
// accepts dead letters again.
func (s *Stream) Stuck() error {
	subject, n, err := s.stuck.first()
	if n == 0 {
		return nil
	}
	where := fmt.Sprintf("subject %.100q", subject)
	if name, ok := s.subjects.queueOf(subject); ok {
		where = "queue " + name
	}
	if n > 1 {
		where += fmt.Sprintf(" and %d more", n-1)
	}
	advice := "check that the stream exists and accepts messages"
	if errors.Is(err, ErrFull) {
		advice = fmt.Sprintf("look at it with nats stream view %s, then make room with nats stream purge %[1]s or "+
			"raise its limits with nats stream edit %[1]s", s.deadName)
	}
	return fmt.Errorf("nothing comes back from the overflow for %s: its first job must become a dead letter, but stream "+
		"%s does not accept it: %w; %s", where, s.deadName, err, advice)
}

// noteStuck records that dead letters could not be stored, unless only ctx has ended. It returns err.
func (p *returnPath) noteStuck(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	p.r.stream.stuck.set(p.subject, err)
	p.r.observer.DeadLetterFailed(p.name, err)
	return err
}

// clearStuck records that no dead letters are waiting, or that another process handles them.
func (p *returnPath) clearStuck() { p.r.stream.stuck.clear(p.subject) }
