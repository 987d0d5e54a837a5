package deferred

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// stuck are the subjects whose head has to become a dead letter and cannot: nothing
// behind it comes back until it does.
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

// first is the least of the subjects, so that it is the same each time, and how many
// there are.
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

// Stuck returns nil, or why jobs do not come back although there may be room: the first of
// them has to become a dead letter, and the stream of these does not take it. Only who runs
// a Readmitter on this Stream can know, of the queues that it has to itself now. It asks
// nobody; it ends by itself when the stream takes dead letters again.
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
	advice := "see that the stream is there and takes messages"
	if errors.Is(err, ErrFull) {
		advice = fmt.Sprintf("look at it with nats stream view %s, then make room with nats stream purge %[1]s or "+
			"raise its limits with nats stream edit %[1]s", s.deadName)
	}
	return fmt.Errorf("nothing comes back from the overflow for %s: the first there has to become a dead letter, and "+
		"stream %s does not take it: %w; %s", where, s.deadName, err, advice)
}

// noteStuck notes that dead letters could not be stored, unless that is because ctx has ended.
// It returns err.
func (w *returnPath) noteStuck(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	w.r.stream.stuck.set(w.subject, err)
	w.r.observer.DeadLetterFailed(w.name, err)
	return err
}

// clearStuck notes that there are none to store, or that another process sees to them.
func (w *returnPath) clearStuck() { w.r.stream.stuck.clear(w.subject) }
