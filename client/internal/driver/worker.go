package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock/penstock/client"
)

// worker is a worker that a request started.
type worker struct {
	w    client.Worker
	stop context.CancelFunc
	over chan error

	mu       sync.Mutex
	started  int
	settled  int
	lost     int
	ids      []string
	payloads []string
}

// workerArgs are the arguments of the call worker.
type workerArgs struct {
	Queue       string
	Concurrency int
	Mode        string
	After       float64
	Seconds     float64
	MaxTime     float64          `json:"max_time"`
	LaneOnly    bool             `json:"lane_only"`
	Actual      map[string]int64 // what jobs have used
}

func startWorker(_ context.Context, d *driver, r *request) (any, error) {
	a, err := args[workerArgs](r)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{stop: stop, over: make(chan error, 1)}
	w.w = client.Worker{
		Client: d.c, Queue: a.Queue, Concurrency: a.Concurrency, MaxTime: seconds(a.MaxTime),
		Handler: func(ctx context.Context, t *client.Task) error {
			w.mu.Lock()
			w.started++
			w.ids = append(w.ids, t.ID)
			if a.Mode == "echo" {
				w.payloads = append(w.payloads, string(t.Payload))
			}
			w.mu.Unlock()
			if a.Actual != nil {
				t.ReportActual(a.Actual)
			}
			return handle(ctx, &a)
		},
	}
	d.mu.Lock()
	number := len(d.workers) + 1
	d.workers[number] = w
	d.mu.Unlock()
	go func() { w.over <- w.w.Run(ctx) }()
	return map[string]any{"worker": number}, nil
}

// handle does what a mode says.
func handle(ctx context.Context, a *workerArgs) error {
	after := seconds(a.After)
	switch a.Mode {
	case "throw":
		return errors.New("thrown")
	case "throw_value":
		panic("a value")
	case "retry":
		return client.Retry(after, "retry")
	case "dead":
		return client.Dead("dead")
	case "throttled":
		if a.LaneOnly {
			return client.ThrottledLane(after, "throttled")
		}
		return client.Throttled(after, "throttled")
	case "released":
		return client.Released()
	case "held":
		return client.Held("held")
	case "down":
		return client.Down("down")
	case "slow":
		select {
		case <-time.After(seconds(a.Seconds)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case "block":
		time.Sleep(seconds(a.Seconds))
	case "never":
		select {}
	case "ok", "echo":
	default:
		return client.Dead(fmt.Sprintf("unknown mode %q", a.Mode))
	}
	return nil
}

// noticed counts what became of jobs.
func (w *worker) noticed(n client.Notice) {
	if n.Queue != w.w.Queue {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n.Kind {
	case client.NoticeSettled:
		w.settled++
	case client.NoticeLost:
		w.lost++
	}
}

func (w *worker) hasBegun(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started >= n
}

func stopWorker(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[struct {
		Worker int
		Begun  int // jobs that it has begun before it is stopped
		Grace  *float64
	}](r)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	w := d.workers[a.Worker]
	d.mu.Unlock()
	if w == nil {
		return nil, fmt.Errorf("%w: there is no worker %d", client.ErrInvalid, a.Worker)
	}
	if a.Grace != nil {
		w.w.Grace = max(seconds(*a.Grace), time.Millisecond) // read after the stop
	}
	for !w.hasBegun(a.Begun) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	w.stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err = <-w.over:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return map[string]any{
		"started": w.started, "settled": w.settled, "lost": w.lost,
		"ids": append([]string{}, w.ids...), "payloads": append([]string{}, w.payloads...),
	}, err
}
