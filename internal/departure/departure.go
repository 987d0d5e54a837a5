// Package departure asks an engine for departures, and computes when a granted job may start on this machine's
// monotonic clock. Package drain uses it to hand jobs to handlers, and package pull for workers that ask.
//
// It promises that no two clocks need to agree. Each answer says that the engine's clock showed some instant between
// the request and the answer. A Clock keeps what all answers allow. A job with departure d on the engine's clock
// departs between two local instants, DepartsFrom and DepartsBy, so it starts in [DepartsBy, DepartsFrom+slack].
//
// It neither decides which client gets a job nor gives one back: its callers do.
package departure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/queue"
)

const (
	// Timeout bounds a request.
	Timeout = 5 * time.Second
	// LeastPause is the minimum time between two requests if the first brought nothing, whatever the engine said.
	LeastPause = time.Millisecond
	// StopTries is how often a request with an unknown outcome is repeated while stopping: its grants must be given
	// back.
	StopTries = 4

	minPause = 10 * time.Millisecond
	maxPause = time.Second

	// unlimitedSlack is the least slack of a queue without a rate. There is no pace to keep, and large grants take
	// longer to arrive than a paced queue's slack. But a pause, or a rate set later, must take effect soon.
	unlimitedSlack = time.Second

	sweepPause = 10 * time.Millisecond
)

// Window is the departure of a granted job on the local clock.
type Window struct {
	DepartsFrom time.Time // earliest possible departure
	DepartsBy   time.Time // latest possible departure: the job may start from then on
	LeaseEnd    time.Time // the holder certainly has the job until then

	told time.Duration // uncertainty sent to the engine
}

// Latest returns the last instant at which the job may start. A client that sent its uncertainty keeps at least half of
// the slack. All of its starts are late by about the same time, and the engine keeps the starts of other clients that
// far away (queue.ReserveRequest.Uncertainty). The engine does so for the uncertainty that was sent. If the client
// knows the clock even less when the answer comes, the job may be too late.
func (w *Window) Latest(slack time.Duration) time.Time {
	latest := w.DepartsFrom.Add(slack)
	if w.told > 0 {
		latest = latestOf(latest, earliestOf(w.DepartsBy.Add(slack/2), w.DepartsFrom.Add(w.told+slack/2)))
	}
	return earliestOf(latest, w.LeaseEnd)
}

func earliestOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// LeaseOf returns the lease of a job.
func LeaseOf(r *queue.Reservation) queue.Lease {
	return queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}
}

// Paced reports whether a queue has a rate or another limit, for all of its jobs or for its lanes.
func Paced(spec *queue.Spec) bool {
	return !spec.Fastest().Unlimited() || len(spec.Limits) > 0 || spec.Lanes.HasRate() || len(spec.Lanes.Overrides) > 0
}

// Slack returns how late the jobs of a queue may start.
func Slack(spec *queue.Spec) time.Duration {
	if spec.Fastest().Unlimited() {
		return max(spec.EffectiveSlack(), unlimitedSlack)
	}
	return spec.EffectiveSlack()
}

// Answer is an engine's answer to one request.
type Answer struct {
	queue.Reserved
	Windows []Window      // of the Jobs, in the same order
	At      time.Time     // when it arrived
	Trip    time.Duration // how long it took
}

// Ask makes one request. With an error the answer has only At and Trip.
func Ask(
	ctx context.Context, engine queue.Outflow, c *Clock, r queue.ReserveRequest, timeout time.Duration,
) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	asked := time.Now()
	res, err := engine.Reserve(ctx, c.Request(r, asked))
	at := time.Now()
	a := Answer{At: at, Trip: at.Sub(asked)}
	if err != nil {
		return a, err
	}
	c.Observe(res.Now, asked, at)
	a.Reserved, a.Windows = res, make([]Window, len(res.Jobs))
	for i := range res.Jobs {
		a.Windows[i] = c.Window(res.Now.Add(res.Jobs[i].In), res.Jobs[i].Lease)
	}
	return a, nil
}

// ProcessName returns the default name of this process: host:pid.
func ProcessName() string { return NameOf(os.Getpid()) }

// NameOf returns the name of a process on this machine: host:pid.
func NameOf(pid int) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, pid)
}

// Backoff is the backoff of calls to the engine: about 10 ms, doubled with each call of Next, up to 1 s.
type Backoff struct{ tries int }

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	d := backoff.Doubled(minPause, maxPause, b.tries)
	b.tries++
	return d/2 + rand.N(d/2+1)
}

// Sweep frees what deleted queues left in a partition, in small steps, until nothing is left or ctx ends.
func Sweep(ctx context.Context, engine queue.Outflow, partition int) error {
	for ctx.Err() == nil {
		more, err := engine.Sweep(ctx, partition)
		if err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(sweepPause):
		}
	}
	return nil
}
