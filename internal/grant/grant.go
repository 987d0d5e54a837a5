// Package grant asks an engine for departures, and says when on this machine's monotonic clock a granted job may start.
// Those who take jobs out share it: package drain hands them to handlers, package pull to workers that ask.
//
// It promises that no two clocks need to agree. Each answer says that the engine's clock showed some instant between
// the request and the answer. A Clock keeps what all answers allow: a job that departs at d of the engine's clock
// departs between two local instants, Departs and Earliest, so it starts in [Earliest, Departs+slack].
//
// It refuses to decide who gets a job, and to give one back: whoever asked does.
package grant

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// Timeout bounds a request.
	Timeout = 5 * time.Second
	// LeastPause is between two requests of which the first brought nothing, whatever the engine said.
	LeastPause = time.Millisecond
	// StopTries is how often a request whose outcome is unknown is repeated while stopping: what it was granted must be
	// given back.
	StopTries = 4

	minPause = 10 * time.Millisecond
	maxPause = time.Second

	// unlimitedSlack is the least slack of a queue without a rate. There is no pace to keep, and large grants take
	// longer to arrive than a paced queue's slack; but a pause, or a rate given later, must hold soon.
	unlimitedSlack = time.Second

	sweepPause = 10 * time.Millisecond
)

// Window is where the departure of a granted job lies on the local clock.
type Window struct {
	Departs  time.Time // not before
	Earliest time.Time // not later, so from then on the job may start
	LeaseEnd time.Time // until then the job belongs to its holder for sure

	told time.Duration // the uncertainty that the engine was told
}

// Latest is the last instant at which the job may start. A client that told the engine its uncertainty has half of the
// slack left at least: all of its starts are late alike, and the engine keeps the starts of other clients that far away
// (queue.ReserveRequest.Uncertainty). The engine does so for the uncertainty that it was told. If the client knows the
// clock even less when the answer comes, the job may be too late.
func (w *Window) Latest(slack time.Duration) time.Time {
	latest := w.Departs.Add(slack)
	if w.told > 0 {
		latest = latestOf(latest, earliestOf(w.Earliest.Add(slack/2), w.Departs.Add(w.told+slack/2)))
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

// LeaseOf names the lease of a job.
func LeaseOf(r *queue.Reservation) queue.Lease {
	return queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}
}

// Paced reports whether the departures of a queue must be told as soon as they are near.
func Paced(spec *queue.Spec) bool {
	return !spec.Fastest().Unlimited() || len(spec.Limits) > 0 || !spec.Lanes.Rate.Unlimited() ||
		len(spec.Lanes.Overrides) > 0
}

// Slack is how late the jobs of a queue may start.
func Slack(spec *queue.Spec) time.Duration {
	if spec.Fastest().Unlimited() {
		return max(spec.EffectiveSlack(), unlimitedSlack)
	}
	return spec.EffectiveSlack()
}

// Answer is what the engine said to one request.
type Answer struct {
	queue.Reserved
	Windows []Window      // of Jobs, in the same order
	At      time.Time     // when it came
	Trip    time.Duration // how long it took
}

// Ask makes a request once. An answer of an error has At and Trip alone.
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

// ProcessName is what this process is called for people, unless it has another name: host:pid.
func ProcessName() string { return NameOf(os.Getpid()) }

// NameOf is what a process of this machine is called so.
func NameOf(pid int) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, pid)
}

// Backoff is how long to wait before a call to the engine that failed is repeated: about 10 ms, then twice that and so
// on up to 1 s. The zero Backoff begins anew.
type Backoff struct{ last time.Duration }

// Next is the next pause.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, minPause), maxPause)
	return b.last/2 + rand.N(b.last/2+1)
}

// Sweep frees what deleted queues left in a partition, a little at a time, until there is no more or ctx ends.
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
