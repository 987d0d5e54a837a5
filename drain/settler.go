package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/queue"
)

const (
	// settleAfterLease is how long after its lease's end a settlement is still tried. The
	// engine may have been away all that time, and with it everybody who could have
	// taken the job.
	settleAfterLease = time.Minute

	settleTimeout = 5 * time.Second
	settleBatch   = coalesce.MaxItems
)

// entry is a settlement and how long it is worth trying.
type entry struct {
	queue.Settlement
	until time.Time
	span  Span // nil unless the attempt is traced
}

// settler settles the jobs of one partition: what comes while a call is under way
// goes with the next. What the engine did not answer is sent again; the same
// settlement gets the same answer.
type settler struct {
	d     *drainer
	limit int // pending entries beyond which handlers wait with the next job

	mu      sync.Mutex
	pending []entry
	closed  bool
	bell    chan struct{} // 1: something to do
	below   chan struct{} // closed and renewed when pending falls below the limit
}

func newSettler(d *drainer) *settler {
	return &settler{
		d: d, limit: max(2*settleBatch, 2*d.options.Concurrency),
		bell: make(chan struct{}, 1), below: make(chan struct{}),
	}
}

// add never blocks. After the end it gives up at once.
func (s *settler) add(e entry) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.giveUp(e, errors.New("the drainer has stopped"))
		return
	}
	s.pending = append(s.pending, e)
	first := len(s.pending) == 1
	s.mu.Unlock()
	if first {
		s.ring()
	}
}

func (s *settler) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// room waits until there are not too many unsettled jobs: an engine that grants but does
// not settle must not fill the memory. When the drainer stops no more are granted.
func (s *settler) room() {
	for {
		s.mu.Lock()
		below, wait := s.below, len(s.pending) >= s.limit && !s.closed
		s.mu.Unlock()
		if !wait {
			return
		}
		select {
		case <-below:
		case <-s.d.stop.Done():
			return
		}
	}
}

// close lets run end when everything is settled.
func (s *settler) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ring()
}

// run settles until the settler is closed and empty, or the drainer's calls end.
func (s *settler) run() {
	var batch []entry
	var sent []queue.Settlement
	var backoff departure.Backoff
	for {
		batch = s.next(batch[:0])
		if batch == nil {
			return
		}
		sent = sent[:0]
		for _, e := range batch {
			sent = append(sent, e.Settlement)
		}
		ctx, cancel := context.WithTimeout(s.d.calls, settleTimeout)
		answers, err := s.d.engine.Settle(ctx, sent)
		cancel()
		again := s.land(batch, answers, err)
		if len(again) == 0 {
			backoff = departure.Backoff{}
			continue
		}
		s.mu.Lock()
		s.pending = append(again, s.pending...)
		s.mu.Unlock()
		s.ring()
		timer := time.NewTimer(backoff.Next())
		select {
		case <-timer.C:
		case <-s.d.calls.Done():
			timer.Stop()
		}
	}
}

// next waits for entries and moves up to a batch of them to batch, or returns nil at
// the end.
func (s *settler) next(batch []entry) []entry {
	for {
		s.mu.Lock()
		if s.d.calls.Err() != nil {
			left := s.pending
			s.pending, s.closed = nil, true
			s.mu.Unlock()
			for _, e := range left {
				s.giveUp(e, context.Cause(s.d.calls))
			}
			return nil
		}
		if n := min(len(s.pending), settleBatch); n > 0 {
			full := len(s.pending) >= s.limit
			batch = append(batch, s.pending[:n]...)
			rest := copy(s.pending, s.pending[n:])
			clear(s.pending[rest:])
			s.pending = s.pending[:rest]
			if full && rest < s.limit {
				close(s.below)
				s.below = make(chan struct{})
			}
			if rest > 0 {
				s.ring()
			}
			s.mu.Unlock()
			return batch
		}
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return nil
		}
		select {
		case <-s.bell:
		case <-s.d.calls.Done():
		}
	}
}

// land tells what was answered and returns what must be sent again.
func (s *settler) land(batch []entry, answers []queue.Settled, err error) (again []entry) {
	if err == nil && len(answers) != len(batch) {
		err = fmt.Errorf("%d answers to %d settlements", len(answers), len(batch))
	}
	now := time.Now()
	var last error
	for i, e := range batch {
		failed := err
		if err == nil || i < len(answers) && (answers[i].Stale || answers[i].State != queue.StateNone) {
			failed = answers[i].Err
		}
		switch {
		case failed == nil:
			s.d.observer.Settled(e.Queue, e.Verdict, answers[i].State)
			if e.span != nil {
				e.span.Settled(answers[i].State, nil)
			}
			if answers[i].State == queue.Held {
				s.d.log.Warn("a job is held: it may have been sent, and waits for a person to decide; see penstock "+
					"held ls",
					"queue", e.Queue, "id", e.ID, "reason", e.Reason)
			}
			if effect := answers[i].Effect; effect != (queue.Effect{}) {
				s.d.observer.Affected(e.Settlement, effect)
				s.tell(&e.Settlement, effect)
			}
		case now.After(e.until) || errors.Is(failed, queue.ErrCorrupt) || errors.Is(failed, queue.ErrClosed):
			s.giveUp(e, failed)
		default:
			again, last = append(again, e), failed
		}
	}
	if len(again) > 0 {
		s.d.complain("settling failed; trying again", last, "jobs", len(again))
	}
	return again
}

// tell logs what an answer did to a queue. One of the engine's answers tells of each, whichever drainer gets it.
func (s *settler) tell(e *queue.Settlement, effect queue.Effect) {
	switch {
	case effect.Opened:
		s.d.log.Warn("the circuit of a queue opened: its target is taken to be down, and probed", "queue", e.Queue,
			"probe_in", effect.Stopped, "reason", e.Reason)
	case effect.Stopped > 0 && e.LaneOnly:
		s.d.log.Info("a lane stops: its receiver asks to be spared", "queue", e.Queue, "for", effect.Stopped,
			"reason", e.Reason)
	case effect.Stopped > 0 && e.NoTarget:
		s.d.log.Warn("a queue stops: it has no target; set its deliver, or pull", "queue", e.Queue)
	case effect.Stopped > 0:
		s.d.log.Warn("a queue stops: its receiver asks to be spared", "queue", e.Queue, "for", effect.Stopped,
			"reason", e.Reason)
	}
	switch from, to := effect.From.PerSecond(), effect.To.PerSecond(); {
	case to < from:
		s.d.log.Info("the rate of a queue was lowered: its receiver throttles", "queue", e.Queue,
			"from", effect.From.String(), "to", effect.To.String(), "per_second", to, "reason", e.Reason)
	case to > from: // which comes every second while it goes well
		s.d.log.Debug("the rate of a queue was raised: its receiver takes what is sent", "queue", e.Queue,
			"from", effect.From.String(), "to", effect.To.String(), "per_second", to)
	}
	if effect.Closed {
		s.d.log.Info("the circuit of a queue closed: its target answers", "queue", e.Queue)
	}
}

func (s *settler) giveUp(e entry, err error) {
	s.d.observer.Unsettled(e.Queue, e.Verdict, err)
	if e.span != nil {
		e.span.Settled(queue.StateNone, err)
	}
	s.d.log.Error("settlement given up; the job is delivered again when its lease has run out",
		"queue", e.Queue, "id", e.ID, "verdict", e.Verdict.String(), "error", err)
}
