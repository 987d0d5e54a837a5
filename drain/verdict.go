package drain

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
)

// settleMargin is subtracted from a job's deadline: a retry must be settled before the deadline, not only begin.
const settleMargin = time.Second

// finish settles the job by what the handler returned.
func (dl *delivery) finish(err error) {
	d, now := dl.part.d, time.Now()
	dl.mu.Lock()
	over := dl.over
	o := outcome{
		job: &dl.job, err: err, passed: !dl.passed.IsZero(), refused: dl.refused, doubtful: dl.doubtful,
		// A handler that returns ErrLate after its window has done nothing behind the gate.
		late:   errors.Is(err, ErrLate) && !IsPermanent(err) && !now.Before(dl.latest),
		ending: d.work.Err() != nil, now: now,
	}
	dl.over, dl.handling = true, false
	if !o.late {
		dl.depart()
	}
	dl.mu.Unlock()
	if over {
		return
	}
	s, why := decide(o)
	switch s.Verdict {
	case unsettled:
		return
	case queue.Release:
		if why == Late {
			d.complain("job given back unused: it did not start within its slack; check whether its receiver is slow to "+
				"connect, give this process more CPU, or raise the queue's slack", nil,
				"queue", dl.job.Queue, "late_by", time.Since(dl.DepartsFrom), "slack", dl.slack, "handler", reason(err))
		}
		dl.release(why)
		return
	}
	s.Lease, s.Budget, s.Actual = dl.lease(), dl.job.budget, dl.job.actual
	for _, fault := range dl.job.ignored {
		d.observer.ActualIgnored(dl.job.Queue, fault)
	}
	if err := dl.job.budgetErr; err != nil {
		d.complain("ignored the receiver's rate-limit headers; check the queue's learn", err, "queue", dl.job.Queue)
	}
	var took time.Duration
	if o.passed {
		took = time.Since(dl.passed)
	}
	d.observer.Returned(&dl.job, s.Verdict, took)
	dl.settle(s)
}

// outcome is how a delivery ended: everything that decides what becomes of its job.
type outcome struct {
	job      *Job
	err      error     // what the handler returned
	passed   bool      // the gate let the job start
	refused  Reason    // why the gate refused the job; 0 if it did not
	late     bool      // the window is over, and the handler returned ErrLate
	doubtful bool      // the lease could not be extended in time
	ending   bool      // the drainer's grace period is over
	now      time.Time // when the handler returned
}

// unsettled is the verdict on a job that is left to its lease.
const unsettled queue.Verdict = 0

// decide returns the settlement of a job, without its lease, and if it is released, the reason. It returns unsettled
// if the job's lease is in doubt and the handler's answer is not worth the risk.
func decide(o outcome) (s queue.Settlement, why Reason) {
	said := o.said()
	s = queue.Settlement{Verdict: said.Verdict, LaneOnly: said.LaneOnly, Trouble: said.Trouble, NoTarget: said.NoTarget}
	switch {
	case said.Verdict == queue.Deliver: // also with a doubtful lease
	case said.Verdict == queue.Hold: // also when interrupted: the job must not be sent twice unnoticed
		s.Verdict = o.job.Spec.Fate()
	case o.doubtful:
		return queue.Settlement{}, 0
	case hasPanicked(o.err), said.Verdict == queue.Bury:
	case said.Verdict == queue.Release, errors.Is(o.err, ErrLate):
		return released(o.releaseReason())
	case !o.passed && o.refused != 0:
		return released(o.refused)
	case o.interrupted():
		if !o.maybeSent() || said.Verdict != queue.Fail || !said.Until.IsZero() {
			return released(Interrupted)
		}
		s.Verdict, s.Trouble = o.job.Spec.Fate(), false // the drainer ended it, and not the target
		o.err = fmt.Errorf("interrupted by the end of the drainer; it may have been sent: %w", o.err)
	}
	if o.err != nil {
		s.Reason = reason(o.err)
	}
	o.schedule(&s, said.Until)
	return s, 0
}

func released(why Reason) (queue.Settlement, Reason) {
	return queue.Settlement{Verdict: queue.Release}, why
}

// said returns what the handler's error says. A handler that crashed behind the gate may have sent the job.
func (o *outcome) said() Said {
	switch {
	case !hasPanicked(o.err) && !errors.Is(o.err, errExited):
		return What(o.err)
	case o.maybeSent():
		return Said{Verdict: queue.Hold}
	}
	return Said{Verdict: queue.Fail}
}

// maybeSent reports whether a handler that ended without an answer may have sent the job, and the queue cares.
func (o *outcome) maybeSent() bool { return o.passed && o.job.Spec.Lends() }

// interrupted reports whether the handler returned because the drainer's grace period ended.
func (o *outcome) interrupted() bool {
	return o.ending && (errors.Is(o.err, context.Canceled) || errors.Is(o.err, ErrStopping))
}

// releaseReason returns why a handler gave its job back.
func (o *outcome) releaseReason() Reason {
	switch {
	case o.refused != 0:
		return o.refused
	case o.late:
		return Late
	case o.ending:
		return Interrupted
	}
	return Handlers
}

// schedule sets how long the job, or the queue, waits after a settlement.
func (o *outcome) schedule(s *queue.Settlement, until time.Time) {
	after := max(0, until.Sub(o.now))
	switch s.Verdict {
	case queue.Down:
		s.Unused = !o.passed
	case queue.Fail:
		s.After = o.job.Spec.Retry.Backoff(o.job.Attempt)
		if !until.IsZero() {
			s.After = min(after, queue.MaxBackoffLimit)
		}
	case queue.Deliver:
		if !until.IsZero() {
			s.After = min(after, queue.MaxStop)
		}
	case queue.Throttle:
		s.After = min(after, queue.MaxStop)
		switch alone := s.LaneOnly && o.job.Lane != ""; {
		case s.After >= queue.MinThrottleStop:
		case !alone:
			s.Untold = true
		case until.IsZero(): // a lane stores only the end of its stop, so its stops cannot grow longer each time
			s.After = queue.MinThrottleStop
		}
	}
}

func hasPanicked(err error) bool {
	var fault *panicked
	return errors.As(err, &fault)
}

// Parts of a URL that may be secret: user and password, and the query. Errors of net/http and others quote URLs, and a
// reason is kept and shown to people.
var (
	userOfURL  = regexp.MustCompile(`(?i)\b(https?://)[^\s/@"'<>]+@`)
	queryOfURL = regexp.MustCompile(`(?i)\b(https?://[^\s?"'<>]*\?)[^\s"'<>]+`)
)

// reason returns an error as the reason of a settlement: valid UTF-8, without secrets of URLs, at most
// queue.MaxReasonBytes long.
func reason(err error) string {
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if strings.Contains(text, "://") {
		text = queryOfURL.ReplaceAllString(userOfURL.ReplaceAllString(text, "${1}***@"), "${1}***")
	}
	if len(text) > queue.MaxReasonBytes {
		text = strings.ToValidUTF8(text[:queue.MaxReasonBytes], "")
	}
	return text
}
