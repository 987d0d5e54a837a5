package client

import (
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	maxExtend = 500 // leases in one request
	maxSettle = 100
)

// extend extends leases until ctx ends.
func (s *shift) extend(ctx context.Context) {
	for failures := 0; ; {
		wait := s.nextExtension()
		planned := time.Now().Add(wait)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.woken:
			timer.Stop()
			continue
		case <-timer.C:
		}
		if late := s.dueBy(planned, time.Now()); late != "" {
			s.Client.tell(Notice{Kind: NoticeBlocked, Queue: s.Queue, ID: late, Pause: time.Since(planned)})
		}
		some := s.toExtend()
		if len(some) == 0 {
			continue
		}
		if err := s.extendSome(ctx, some); err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			failures++
			s.Client.tell(Notice{Kind: NoticeExtendFailed, Queue: s.Queue, Attempt: failures, Err: err})
		}
	}
}

// nextExtension returns the time until the next lease must be extended.
func (s *shift) nextExtension() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Hour
	for l := range s.leases {
		if !l.lost {
			wait = min(wait, time.Until(l.next))
		}
	}
	return max(wait, 0)
}

// dueBy returns the id of a job whose lease ended between two instants, that is while this process stood still.
func (s *shift) dueBy(planned, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.leases {
		if !l.lost && planned.Before(l.deadline) && now.After(l.deadline) {
			return l.task.ID
		}
	}
	return ""
}

// toExtend returns the leases that must be extended now or soon.
func (s *shift) toExtend() (some []*lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for l := range s.leases {
		if !l.lost && l.next.Sub(now) <= l.length/20 && len(some) < maxExtend {
			some = append(some, l)
		}
	}
	return some
}

// extendSome extends leases once.
func (s *shift) extendSome(ctx context.Context, some []*lease) error {
	type item struct {
		ID    string `json:"id"`
		Lease string `json:"lease"`
	}
	items := make([]item, len(some))
	patience := 10 * time.Second
	for i, l := range some {
		items[i] = item{l.task.ID, l.task.Lease}
		patience = min(patience, max(l.length/3, 100*time.Millisecond))
	}
	sent := time.Now()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var answer struct {
		Jobs []struct {
			ExpiresInMS *int64 `json:"expires_in_ms"`
			LeaseFailed
		} `json:"jobs"`
	}
	r := &Request{Method: http.MethodPost, Path: queuePath(s.Queue, "extend"), Body: map[string]any{"jobs": items}}
	_, err := s.Client.Do(limited, r, &answer)
	for i, l := range some {
		switch {
		case err == nil && i < len(answer.Jobs) && answer.Jobs[i].ExpiresInMS != nil && *answer.Jobs[i].ExpiresInMS > 0:
			left := milliseconds(*answer.Jobs[i].ExpiresInMS)
			s.mu.Lock()
			l.deadline, l.length, l.next = sent.Add(left), left, sent.Add(left/3)
			s.mu.Unlock()
		case err == nil && i < len(answer.Jobs) && answer.Jobs[i].ExpiresInMS != nil, time.Now().After(l.deadline):
			s.lose(l)
		default: // it is unknown: the work goes on
			s.mu.Lock()
			l.next = time.Now().Add(max(l.length/12, 20*time.Millisecond))
			s.mu.Unlock()
		}
	}
	return err
}

// lose ends the work on a job whose lease is lost. If the handler has returned, the answer to its settlement counts.
func (s *shift) lose(l *lease) {
	s.mu.Lock()
	l.lost = true
	running := !l.returned
	s.mu.Unlock()
	if running {
		l.cancel(ErrLeaseLost)
		s.Client.tell(Notice{Kind: NoticeLost, Queue: s.Queue, ID: l.task.ID, Err: ErrLeaseLost})
	}
}

// report is a settlement to send.
type report struct {
	settlement
	lease *lease
	due   time.Time
	tries int
	alone bool // since a request with it was refused
}

// report has an outcome sent.
func (s *shift) report(l *lease, err error) {
	s.mu.Lock()
	s.due = append(s.due, &report{settlement: settlementOf(l.task, err), lease: l})
	s.mu.Unlock()
	wake(s.filled)
}

// settle sends settlements until the shift is closed and all are answered, or useless.
func (s *shift) settle() {
	for {
		some, wait, over := s.toSettle()
		if over {
			return
		}
		if len(some) > 0 {
			s.settleSome(some)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.filled:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// toSettle takes the settlements that are due, or returns how long to wait for the next one.
func (s *shift) toSettle() (some []*report, wait time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	wait = time.Hour
	left := make([]*report, 0, len(s.due))
	for _, r := range s.due {
		until := r.due.Sub(now)
		if until <= 0 && len(some) < maxSettle && (len(some) == 0 || !r.alone && !some[0].alone) {
			some = append(some, r)
			continue
		}
		left = append(left, r)
		wait = min(wait, max(until, 0))
	}
	s.due = left
	return some, wait, s.closed && len(some) == 0 && len(left) == 0
}

// settleSome sends settlements once. A request without an answer must not hold up others for long.
func (s *shift) settleSome(some []*report) {
	bodies := make([]settlement, len(some))
	patience := 10 * time.Second
	s.mu.Lock()
	for i, r := range some {
		r.tries++
		bodies[i] = r.settlement
		patience = min(patience, max(r.lease.length/3, time.Second))
	}
	s.mu.Unlock()
	limited, cancel := context.WithTimeout(s.base, patience)
	defer cancel()
	var answer struct {
		Jobs []struct {
			State State `json:"state"`
			Stale bool  `json:"stale"`
			LeaseFailed
		} `json:"jobs"`
	}
	r := &Request{Method: http.MethodPost, Path: queuePath(s.Queue, "settle"), Body: map[string]any{"jobs": bodies}}
	_, err := s.Client.Do(limited, r, &answer)
	for i, r := range some {
		n := Notice{Kind: NoticeSettled, Queue: s.Queue, ID: r.ID, Attempt: r.tries, Err: err}
		switch {
		case err == nil && i >= len(answer.Jobs):
			n.Err = errors.New("the answer lacks the job")
		case err == nil && answer.Jobs[i].Stale:
			n.Kind, n.Err = NoticeLost, ErrLeaseLost
		case err == nil && answer.Jobs[i].Reason != "":
			a := answer.Jobs[i].LeaseFailed
			n.Err = &Problem{Status: a.Status, Reason: a.Reason, Detail: a.Detail, RetryAfterMS: a.RetryAfterMS, ID: r.ID}
		}
		if n.Err != nil && n.Kind == NoticeSettled && s.retry(&n, r, err != nil && len(some) > 1) {
			continue
		}
		s.mu.Lock()
		delete(s.leases, r.lease)
		s.mu.Unlock()
		s.Client.tell(n)
	}
}

// retry sends a settlement again after a failure, alone if one of several in a request is at fault, and without actual
// costs if these may be at fault. It reports false if this is no use.
func (s *shift) retry(n *Notice, r *report, several bool) bool {
	n.Kind = NoticeSettleFailed
	refused := s.hopeless(n.Err)
	if refused && !several {
		if r.Actual == nil {
			return false
		}
		r.Actual = nil
		s.Client.tell(*n)
	}
	if r.alone = r.alone || refused; !refused {
		n.Pause = pauseAfter(n.Err, r.tries)
	}
	s.mu.Lock()
	r.due = time.Now().Add(n.Pause)
	again := r.due.Before(r.lease.deadline.Add(time.Second)) // else the lease has surely ended by then
	if again {
		s.due = append(s.due, r)
	}
	s.mu.Unlock()
	switch {
	case !again:
		n.Kind, n.Err, n.Pause = NoticeLost, errors.Join(ErrLeaseLost, n.Err), 0
	case !refused:
		s.Client.tell(*n)
	}
	return again
}
