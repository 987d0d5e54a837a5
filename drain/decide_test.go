package drain

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// What becomes of a job depends on what its handler returned, on the gate, the lease and the drainer, and on nothing
// else.
func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	broken, cancelled := errors.New("broken"), fmt.Errorf("sending: %w", context.Canceled)
	fault := &panicked{"oops"}
	const (
		before = 1 << iota // the handler did not pass the gate
		doubt              // the lease could not be extended in time
		ending             // the grace period is over
		late               // the window is over, and the handler returned ErrLate
		hold               // on_unknown is hold; otherwise it is retry
		lane               // the job has a lane
	)
	for _, c := range []struct {
		name    string
		err     error
		is      int
		refused Reason
		want    queue.Settlement
		why     Reason
	}{
		{name: "done", want: queue.Settlement{Verdict: queue.Deliver}},
		{name: "done, the lease in doubt", is: doubt, want: queue.Settlement{Verdict: queue.Deliver}},
		{
			name: "done, and the receiver throttles", err: DeliveredThen(in(time.Minute), "spared"),
			want: queue.Settlement{Verdict: queue.Deliver, After: time.Minute, Reason: "spared"},
		},
		{name: "failed", err: broken, want: queue.Settlement{Verdict: queue.Fail, After: 2 * time.Second, Reason: "broken"}},
		{name: "failed, the lease in doubt", err: broken, is: doubt},
		{
			name: "failed without waiting", err: broken, is: before,
			want: queue.Settlement{Verdict: queue.Fail, After: 2 * time.Second, Reason: "broken"},
		},
		{name: "failed, refused by the gate", err: broken, is: before, refused: Late, want: givenBack, why: Late},
		{
			name: "to be retried at", err: RetryAt(broken, in(time.Hour)),
			want: queue.Settlement{Verdict: queue.Fail, After: time.Hour, Reason: "broken"},
		},
		{
			name: "to be retried at an instant that is over", err: RetryAt(broken, in(-time.Hour)),
			want: queue.Settlement{Verdict: queue.Fail, Reason: "broken"},
		},
		{
			name: "the target's fault", err: Trouble(broken),
			want: queue.Settlement{Verdict: queue.Fail, After: 2 * time.Second, Reason: "broken", Trouble: true},
		},
		{
			name: "permanent, refused by the gate", err: Permanent(ErrLate), is: before, refused: Late,
			want: queue.Settlement{Verdict: queue.Bury, Reason: "too late to start"},
		},
		{name: "permanent, the lease in doubt", err: Permanent(broken), is: doubt},
		{
			name: "unknown, and it is retried", err: Unknown(broken),
			want: queue.Settlement{Verdict: queue.Fail, After: 2 * time.Second, Reason: "broken"},
		},
		{
			name: "unknown, the lease in doubt", err: Unknown(broken), is: hold | doubt | ending,
			want: queue.Settlement{Verdict: queue.Hold, Reason: "broken"},
		},
		{
			name: "down before the gate", err: Down(broken), is: before,
			want: queue.Settlement{Verdict: queue.Down, Unused: true, Reason: "broken"},
		},
		{name: "down behind the gate", err: Down(broken), want: queue.Settlement{Verdict: queue.Down, Reason: "broken"}},
		{
			name: "throttled", err: ThrottledBy(broken, in(time.Minute)),
			want: queue.Settlement{Verdict: queue.Throttle, After: time.Minute, Reason: "broken"},
		},
		{
			name: "throttled for long", err: ThrottledBy(broken, in(queue.MaxStop+time.Hour)),
			want: queue.Settlement{Verdict: queue.Throttle, After: queue.MaxStop, Reason: "broken"},
		},
		{
			name: "throttled without an instant", err: ThrottledBy(broken, time.Time{}),
			want: queue.Settlement{Verdict: queue.Throttle, Untold: true, Reason: "broken"},
		},
		{
			name: "a lane throttled without an instant", err: LaneThrottled(broken, time.Time{}), is: lane,
			want: queue.Settlement{
				Verdict: queue.Throttle, LaneOnly: true, After: queue.MinThrottleStop, Reason: "broken",
			},
		},
		{
			name: "throttled for a lane that the job does not have", err: LaneThrottled(broken, time.Time{}),
			want: queue.Settlement{Verdict: queue.Throttle, LaneOnly: true, Untold: true, Reason: "broken"},
		},
		{name: "late", err: ErrLate, is: late, want: givenBack, why: Late},
		{name: "late, says the handler in time", err: ErrLate, want: givenBack, why: Handlers},
		{name: "late, as the drainer stops", err: ErrLate, is: before, refused: Stopping, want: givenBack, why: Stopping},
		{name: "late at the end of the grace period", err: ErrLate, is: ending, want: givenBack, why: Interrupted},
		{name: "unsent", err: Unsent(broken), is: hold, want: givenBack, why: Handlers},
		{
			name: "unsent at the end of the grace period", err: Unsent(cancelled), is: hold | ending,
			want: givenBack, why: Interrupted,
		},
		{name: "interrupted", err: cancelled, is: ending, want: givenBack, why: Interrupted},
		{name: "interrupted before the gate", err: cancelled, is: before | hold | ending, want: givenBack, why: Interrupted},
		{
			name: "interrupted behind the gate", err: Trouble(cancelled), is: hold | ending,
			want: queue.Settlement{
				Verdict: queue.Hold,
				Reason:  "interrupted by the end of the drainer; it may have been sent: sending: context canceled",
			},
		},
		{
			name: "failed at the end of the grace period", err: broken, is: hold | ending,
			want: queue.Settlement{Verdict: queue.Fail, After: 2 * time.Second, Reason: "broken"},
		},
		{
			name: "somebody else's cancelled context", err: cancelled,
			want: queue.Settlement{Verdict: queue.Fail, After: 2 * time.Second, Reason: "sending: context canceled"},
		},
		{
			name: "a panic before the gate, which refused", err: fault, is: before | hold, refused: Late,
			want: queue.Settlement{Verdict: queue.Fail, After: 2 * time.Second, Reason: "the handler panicked: oops"},
		},
		{
			name: "a panic behind the gate", err: fault, is: hold,
			want: queue.Settlement{Verdict: queue.Hold, Reason: "the handler panicked: oops"},
		},
		{name: "a panic, the lease in doubt", err: fault, is: doubt},
		{name: "an ended goroutine that was refused", err: errExited, is: before, refused: Late, want: givenBack, why: Late},
	} {
		spec := &queue.Spec{OnUnknown: queue.UnknownRetry, Retry: queue.Retry{
			MinBackoff: unit.Duration(time.Second), MaxBackoff: unit.Duration(time.Minute), Jitter: "none",
		}}
		if c.is&hold != 0 {
			spec.OnUnknown = queue.UnknownHold
		}
		job := &Job{Spec: spec, Reservation: queue.Reservation{Attempt: 2}}
		if c.is&lane != 0 {
			job.Lane = "l"
		}
		got, why := decide(outcome{
			job: job, err: c.err, passed: c.is&before == 0, refused: c.refused, late: c.is&late != 0,
			doubtful: c.is&doubt != 0, ending: c.is&ending != 0, now: now,
		})
		if !reflect.DeepEqual(got, c.want) || why != c.why {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, why, c.want, c.why)
		}
	}
}

var givenBack = queue.Settlement{Verdict: queue.Release}
