// Package grant asks an engine for departures, and says when on this machine's monotonic clock a granted job may start.
// Those who take jobs out share it: package drain hands them to handlers, package pull to workers that ask.
//
// It promises that no clocks are compared. With s the instant before the engine was asked and r the one after its
// answer, a job that departs "in d" departs between s+d and r+d, so it starts in [r+d, s+d+slack]. An answer that came
// too slowly to leave much of that window is asked for again, under the same number and so for the same jobs.
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
	Departs  time.Time // s + d: not before
	Earliest time.Time // r + d: not later, so from then on the job may start
	LeaseEnd time.Time // until then the job belongs to its holder for sure
}

// Latest is the last instant at which the job may start.
func (w *Window) Latest(slack time.Duration) time.Time {
	if latest := w.Departs.Add(slack); latest.Before(w.LeaseEnd) {
		return latest
	}
	return w.LeaseEnd
}

// LeaseOf names the lease of a job.
func LeaseOf(r *queue.Reservation) queue.Lease {
	return queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}
}

// Slack is how late the jobs of a queue may start.
func Slack(spec *queue.Spec) time.Duration {
	if spec.Fastest().Unlimited() {
		return max(spec.Slack.D(), unlimitedSlack)
	}
	return spec.Slack.D()
}

// Answer is what the engine said to one request.
type Answer struct {
	queue.Reserved
	Windows []Window      // of Jobs, in the same order
	At      time.Time     // when it came
	Trip    time.Duration // how long it took
}

// Ask makes a request once. An answer of an error has At and Trip alone.
func Ask(ctx context.Context, engine queue.Outflow, r queue.ReserveRequest, timeout time.Duration) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	asked := time.Now()
	res, err := engine.Reserve(ctx, r)
	at := time.Now()
	a := Answer{At: at, Trip: at.Sub(asked)}
	if err != nil {
		return a, err
	}
	a.Reserved, a.Windows = res, make([]Window, len(res.Jobs))
	for i := range res.Jobs {
		job := &res.Jobs[i]
		departs := asked.Add(job.In)
		a.Windows[i] = Window{Departs: departs, Earliest: at.Add(job.In), LeaseEnd: departs.Add(job.Lease)}
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
