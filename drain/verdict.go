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

// settleMargin is how long before its deadline a try is taken to come too late: what counts is when the engine has the
// settlement of the one before.
const settleMargin = time.Second

// finish settles what the handler returned.
func (a *attempt) finish(err error) {
	a.mu.Lock()
	over, refused, doubtful, passed := a.over, a.refused, a.doubtful, a.passed
	a.over, a.handling = true, false
	// A handler that says so once the window is over has begun nothing behind the gate.
	late := errors.Is(err, ErrLate) && !IsPermanent(err) && !time.Now().Before(a.latest)
	if !late {
		a.depart()
	}
	a.mu.Unlock()
	if over {
		return
	}
	said, verdict, why := Said{Verdict: queue.Fail}, queue.Fail, refused
	panicked := err != nil && hasPanicked(err)
	switch {
	case !panicked && !errors.Is(err, errExited):
		said = What(err)
	case !passed.IsZero() && a.job.Spec.Lends(): // a handler that broke off behind the gate may have sent it
		said.Verdict = queue.Hold
	}
	switch {
	case said.Verdict == queue.Deliver: // also when the lease is in doubt
		verdict = queue.Deliver
	case said.Verdict == queue.Hold: // also then, and when it was interrupted: it must not go out again unseen
		verdict = a.job.Spec.Fate()
	case doubtful:
		return
	case panicked:
	case said.Verdict == queue.Bury:
		verdict = queue.Bury
	case said.Verdict == queue.Release, errors.Is(err, ErrLate):
		verdict = queue.Release
		if why == 0 {
			why = Handlers
			switch {
			case late:
				why = Late
			case a.part.d.work.Err() != nil:
				why = Interrupted
			}
		}
	case passed.IsZero() && refused != 0:
		verdict = queue.Release
	case a.part.d.work.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrStopping)):
		verdict, why = queue.Release, Interrupted
		if !passed.IsZero() && a.job.Spec.Lends() && said.Verdict == queue.Fail && said.Until.IsZero() {
			// As when its lease runs out: who broke off behind the gate, and says no more, may have sent it.
			said.Trouble = false // it was the drainer's end
			verdict, err = a.job.Spec.Fate(), fmt.Errorf("broken off by the drainer's end; it may have been sent: %w",
				err)
		}
	default:
		verdict = said.Verdict
	}
	if verdict == queue.Release {
		if why == Late {
			a.part.d.complain("a job was given back unused: it did not start before its slack was over; see whether its "+
				"receiver is slow to connect, give this process more CPU, or raise the queue's slack", nil,
				"queue", a.job.Queue, "late_by", time.Since(a.Departs), "slack", a.slack, "handler", reason(err))
		}
		a.release(why)
		return
	}
	s := queue.Settlement{
		Lease: a.lease(), Verdict: verdict, LaneOnly: said.LaneOnly, Trouble: said.Trouble, NoTarget: said.NoTarget,
	}
	if err != nil {
		s.Reason = reason(err)
	}
	switch verdict {
	case queue.Down:
		s.Unused = passed.IsZero()
	case queue.Fail:
		s.After = a.job.Spec.Retry.Backoff(a.job.Attempt)
		if !said.Until.IsZero() {
			s.After = min(max(0, time.Until(said.Until)), queue.MaxBackoffLimit)
		}
	case queue.Deliver:
		if !said.Until.IsZero() {
			s.After = min(max(0, time.Until(said.Until)), queue.MaxStop)
		}
	case queue.Throttle:
		s.After = min(max(0, time.Until(said.Until)), queue.MaxStop)
		switch alone := said.LaneOnly && a.job.Lane != ""; {
		case s.After >= queue.MinThrottleStop:
		case !alone:
			s.Untold = true
		case said.Until.IsZero(): // of a lane no more is kept than until when it stops
			s.After = queue.MinThrottleStop
		}
	}
	var took time.Duration
	if !passed.IsZero() {
		took = time.Since(passed)
	}
	a.part.d.observer.Returned(&a.job, verdict, took)
	a.settle(s)
}

func hasPanicked(err error) bool {
	var fault *panicked
	return errors.As(err, &fault)
}

// User, password and query of a URL, which the errors of net/http and others
// quote. A reason is kept and shown to people.
var (
	userOfURL  = regexp.MustCompile(`(?i)\b(https?://)[^\s/@"'<>]+@`)
	queryOfURL = regexp.MustCompile(`(?i)\b(https?://[^\s?"'<>]*\?)[^\s"'<>]+`)
)

// reason makes a settlement's reason of an error.
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
