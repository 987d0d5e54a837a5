package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

const (
	// settleAfterLease is how long after the end of its lease a settlement is still tried. If the engine was away all that
	// time, no other client can have got the job.
	settleAfterLease = time.Minute

	settleTimeout = 5 * time.Second
	settleBatch   = coalesce.MaxItems
)

// pendingSettlement is a settlement that the engine has not answered yet.
type pendingSettlement struct {
	queue.Settlement
	until time.Time // when it is given up
	span  Span      // nil unless the delivery is traced
}

// settler settles the jobs of one partition. Settlements that arrive during a call go with the next call. A call
// without an answer is repeated; the same settlement gets the same answer.
type settler struct {
	d     *drainer
	limit int // number of pending settlements from which on handlers wait before their next job

	mu      sync.Mutex
	pending []pendingSettlement
	closed  bool
	bell    chan struct{} // 1: something to do
	below   chan struct{} // closed and replaced when pending falls below the limit
}

func newSettler(d *drainer) *settler {
	return &settler{
		d: d, limit: max(2*settleBatch, 2*d.options.Concurrency),
		bell: make(chan struct{}, 1), below: make(chan struct{}),
	}
}

// add queues a settlement and never blocks. When the settler is closed it gives the settlement up at once.
func (s *settler) add(p pendingSettlement) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.giveUp(&p, errors.New("the drainer has stopped"))
		return
	}
	s.pending = append(s.pending, p)
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

// room waits until fewer settlements are pending than the limit: an engine that grants jobs but does not settle them
// must not fill the memory. When the drainer stops, nothing is granted any more and room returns.
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

// close has run end when everything is settled.
func (s *settler) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ring()
}

// run settles until the settler is closed and empty, or the drainer's calls end.
func (s *settler) run() {
	var batch []pendingSettlement
	var sent []queue.Settlement
	var backoff departure.Backoff
	for {
		batch = s.next(batch[:0])
		if batch == nil {
			return
		}
		sent = sent[:0]
		for i := range batch {
			sent = append(sent, batch[i].Settlement)
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

// next waits for settlements and appends the first of them to batch, at most settleBatch. It returns nil at the end.
func (s *settler) next(batch []pendingSettlement) []pendingSettlement {
	for {
		s.mu.Lock()
		if s.d.calls.Err() != nil {
			left := s.pending
			s.pending, s.closed = nil, true
			s.mu.Unlock()
			for i := range left {
				s.giveUp(&left[i], context.Cause(s.d.calls))
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

// land reports the answers to a batch, and returns the settlements that must be sent again.
func (s *settler) land(batch []pendingSettlement, answers []queue.Settled, err error) (again []pendingSettlement) {
	if err == nil && len(answers) != len(batch) {
		err = fmt.Errorf("%d answers to %d settlements", len(answers), len(batch))
	}
	now := time.Now()
	var last error
	for i := range batch {
		p, failed := &batch[i], err
		if err == nil || i < len(answers) && (answers[i].Stale || answers[i].State != queue.StateNone) {
			failed = answers[i].Err
		}
		var refused *invalid.Error
		switch {
		case failed == nil:
			s.answered(p, &answers[i])
		case errors.As(failed, &refused) && p.Actual != nil: // the queue may count other units by now
			s.d.log.Error("actual costs are not charged", "queue", p.Queue, "id", p.ID, "error", failed)
			s.d.observer.ActualIgnored(p.Queue, UncountedActual)
			p.Actual = nil
			again, last = append(again, *p), failed
		case now.After(p.until) || errors.Is(failed, queue.ErrCorrupt) || errors.Is(failed, queue.ErrClosed):
			s.giveUp(p, failed)
		default:
			again, last = append(again, *p), failed
		}
	}
	if len(again) > 0 {
		s.d.complain("settling failed; trying again", last, "jobs", len(again))
	}
	return again
}

// answered reports the engine's answer to a settlement.
func (s *settler) answered(p *pendingSettlement, answer *queue.Settled) {
	s.d.observer.Settled(p.Queue, p.Verdict, answer.State)
	if p.span != nil {
		p.span.Settled(answer.State, nil)
	}
	if answer.State == queue.Held {
		s.d.log.Warn("job held: it may have been sent, and needs a decision; see penstock held ls",
			"queue", p.Queue, "id", p.ID, "reason", p.Reason)
	}
	if answer.Effect != (queue.Effect{}) {
		s.d.observer.Affected(p.Settlement, answer.Effect)
		s.logEffect(&p.Settlement, answer.Effect)
	}
}

// logEffect logs what a settlement did to its queue. The engine reports each effect to one drainer only.
func (s *settler) logEffect(of *queue.Settlement, effect queue.Effect) {
	switch {
	case effect.Opened:
		s.d.log.Warn("circuit opened: the queue's target seems to be down, and is probed", "queue", of.Queue,
			"probe_in", effect.Stopped, "reason", of.Reason)
	case effect.Stopped > 0 && of.LaneOnly:
		s.d.log.Info("lane stopped: its receiver throttles", "queue", of.Queue, "for", effect.Stopped,
			"reason", of.Reason)
	case effect.Stopped > 0 && of.NoTarget:
		s.d.log.Warn("queue stopped: it has no target; set its deliver, or pull", "queue", of.Queue)
	case effect.Stopped > 0:
		s.d.log.Warn("queue stopped: its receiver throttles", "queue", of.Queue, "for", effect.Stopped,
			"reason", of.Reason)
	}
	switch from, to := effect.From.PerSecond(), effect.To.PerSecond(); {
	case from != to && of.Budget != (queue.Budget{}):
		s.d.seldom(slog.LevelInfo, "rate follows the receiver's budget", "queue", of.Queue,
			"from", effect.From.String(), "to", effect.To.String(), "per_second", to, "remaining", of.Budget.Remaining,
			"renewed_in", of.Budget.Reset)
	case to < from:
		s.d.log.Info("rate lowered: the queue's receiver throttles", "queue", of.Queue,
			"from", effect.From.String(), "to", effect.To.String(), "per_second", to, "reason", of.Reason)
	case to > from: // logged at debug level: it happens every second while all goes well
		s.d.log.Debug("rate raised: the queue's receiver keeps up", "queue", of.Queue,
			"from", effect.From.String(), "to", effect.To.String(), "per_second", to)
	}
	if effect.Closed {
		s.d.log.Info("circuit closed: the queue's target answers", "queue", of.Queue)
	}
}

func (s *settler) giveUp(p *pendingSettlement, err error) {
	s.d.observer.Unsettled(p.Queue, p.Verdict, err)
	if p.span != nil {
		p.span.Settled(queue.StateNone, err)
	}
	s.d.log.Error("settlement given up; the job is delivered again when its lease has run out",
		"queue", p.Queue, "id", p.ID, "verdict", p.Verdict.String(), "error", err)
}
