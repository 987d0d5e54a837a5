package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

const (
	hangingOthers = 99
	hangingRate   = 10 // per second, for each queue
	hangingSpan   = 10 * time.Second
	hangingSlack  = 100 * time.Millisecond // the figure is about handlers, not timers
	hangs         = "hangs"
)

// hanging drains 100 queues, and the receiver of one of them answers after 10 s or never. The figure is the lowest
// share of its own pace that any other queue gets.
func hanging(name string, after time.Duration) Figure {
	return Figure{
		Name: name, Unit: "%, share of its rate that the slowest of 99 queues achieves while another hangs", Rounds: 1,
		Floor: "no receiver hangs",
		Goal:  "99%",
		Met:   func(ours, _, _ float64) bool { return ours >= 99 },
		Setup: func(ctx context.Context) (Measurements, error) {
			s, err := onRedis(ctx)
			if err != nil {
				return Measurements{}, err
			}
			var held int
			m := Measurements{Close: s.Close}
			m.Ours = func(ctx context.Context) (share float64, err error) {
				share, held, err = worstShare(ctx, s, after)
				return share, err
			}
			m.Floor = func(ctx context.Context) (float64, error) {
				share, _, err := worstShare(ctx, s, 0)
				return share, err
			}
			m.Notes = func() string {
				return fmt.Sprintf("the hanging queue held %d of %d handlers", held, drain.MaxHandlers(drain.DefaultConcurrency))
			}
			return m, nil
		},
	}
}

// worstShare returns the lowest share of its own pace that any other queue gets, and the number of handlers that the
// hanging queue holds. The hanging queue starts first, so that it takes all handlers that it may.
func worstShare(ctx context.Context, s store, after time.Duration) (share float64, held int, err error) {
	e, err := s.anew(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := filled(ctx, e, hangs, leaky.PerSecond(1000), sized(2000)); err != nil {
		return 0, 0, err
	}
	h := &hangingHandler{after: after, came: map[string]int{}}
	var usage drain.Usage
	running, stop := context.WithCancel(ctx)
	end := make(chan error, 1)
	go func() {
		end <- drain.Run(running, e, drain.HandlerFunc(h.handle), drain.Options{Usage: &usage, Grace: time.Millisecond})
	}()
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	pause(lasting(time.Second))
	for i := range hangingOthers {
		if err = filled(
			ctx, e, fmt.Sprint("other", i), leaky.PerSecond(hangingRate), int(4*hangingRate*lasting(hangingSpan).Seconds()),
		); err != nil {
			break
		}
	}
	pause(lasting(2 * time.Second))
	before, begin := h.counts(), time.Now()
	pause(lasting(hangingSpan))
	counts, took := h.counts(), time.Since(begin)
	for _, q := range usage.Queues() {
		if q.Queue == hangs {
			held = q.Handlers
		}
	}
	stop()
	if err := errors.Join(err, <-end, ctx.Err()); err != nil {
		return 0, 0, err
	}
	share = 100
	for i := range hangingOthers {
		name := fmt.Sprint("other", i)
		// The last departure of the span may come just after it.
		share = min(share, 100*float64(counts[name]-before[name]+1)/(hangingRate*took.Seconds()))
	}
	return share, held, nil
}

// hangingHandler counts the jobs of each queue. Jobs of the hanging queue take after.
type hangingHandler struct {
	after time.Duration
	mu    sync.Mutex
	came  map[string]int
}

func (h *hangingHandler) handle(ctx context.Context, job *drain.Job) error {
	h.mu.Lock()
	h.came[job.Queue]++
	h.mu.Unlock()
	if job.Queue != hangs || h.after == 0 {
		return nil
	}
	select {
	case <-time.After(h.after):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *hangingHandler) counts() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.came)
}

// filled makes a queue with count jobs.
func filled(ctx context.Context, e queue.Engine, name string, rate leaky.Rate, count int) error {
	if _, err := e.Put(
		ctx, queue.Spec{Name: name, Rate: rate, Lease: unit.Duration(2 * time.Hour), Slack: unit.Duration(hangingSlack)},
		queue.AnyRevision,
	); err != nil {
		return err
	}
	for from := 0; from < count; from += 500 {
		var jobs []queue.Job
		for i := from; i < min(from+500, count); i++ {
			jobs = append(jobs, queue.Job{Queue: name, ID: fmt.Sprintf("%06d", i), Payload: []byte("{}")})
		}
		answers, err := e.Append(ctx, jobs)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Outcome != queue.Accepted {
				return fmt.Errorf("%s/%s: %v %w", name, a.ID, a.Outcome, a.Err)
			}
		}
	}
	return nil
}
