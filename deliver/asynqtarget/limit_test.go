package asynqtarget_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver/asynqtarget"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// turnsAt returns the turns of a queue of that rate, on a store in the Redis that asynq uses.
func turnsAt(t *testing.T, s *redistest.Server, rate leaky.Rate) (*pull.Turns, queue.Engine) {
	t.Helper()
	e, err := redisq.OpenClient(t.Context(), s.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(t.Context(), queue.Spec{Name: "ses", Rate: rate, Pull: true}, 0); err != nil {
		t.Fatal(err)
	}
	dispatcher := pull.New(e, pull.Options{})
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	over := make(chan error, 1)
	go func() { over <- dispatcher.Run(running) }()
	turns := pull.NewTurns(e, dispatcher, "ses")
	t.Cleanup(func() {
		turns.Close()
		stop()
		if err := errors.Join(<-over, e.Close()); err != nil {
			t.Error(err)
		}
	})
	return turns, e
}

// enqueue enqueues n tasks past Penstock.
func enqueue(t *testing.T, o asynq.RedisConnOpt, task string, n int, options ...asynq.Option) {
	t.Helper()
	producer := asynq.NewClient(o)
	defer producer.Close()
	for i := range n {
		with := append(options, asynq.TaskID(fmt.Sprint("t", i)), asynq.Retention(time.Hour))
		if _, err := producer.Enqueue(asynq.NewTask(task, nil), with...); err != nil {
			t.Fatal(err)
		}
	}
}

// Workers reach the rate of a queue with asynq's own settings, and never exceed it, however many they are. No task
// spends a retry.
func TestLimit(t *testing.T) {
	often := asynq.Config{DelayedTaskCheckInterval: time.Second, TaskCheckInterval: 100 * time.Millisecond}
	for name, c := range map[string]struct {
		rate           leaky.Rate
		tasks, workers int
		config         asynq.Config
	}{
		"one worker":           {leaky.PerSecond(14), 100, 1, asynq.Config{}},
		"two workers":          {leaky.PerSecond(14), 100, 2, asynq.Config{}},
		"ten workers":          {leaky.PerSecond(14), 100, 10, asynq.Config{}},
		"thirty workers":       {leaky.PerSecond(14), 100, 30, asynq.Config{}}, // wait for more than a second
		"fewer than must wait": {leaky.PerSecond(2), 24, 3, asynq.Config{}},
		"more than may wait":   {leaky.PerSecond(14), 150, 40, often},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := redis(t)
			turns, _ := turnsAt(t, s, c.rate)
			enqueue(t, o, "email:send", c.tasks, asynq.MaxRetry(1))
			c.config.Concurrency = c.workers
			limit := asynqtarget.Limit(&c.config)
			w := work(t, o, c.config, limit(turns))
			w.wait(t, c.tasks)
			w.judge(t, c.rate)
			w.keepsUp(t, c.rate, c.tasks*2/3) // until then there is a backlog, wherever its tasks are
			inspector := asynq.NewInspector(o)
			defer inspector.Close()
			for i := range c.tasks {
				info, err := inspector.GetTaskInfo("default", fmt.Sprint("t", i))
				if err != nil || info.Retried != 0 {
					t.Errorf("t%d: %+v, %v", i, info, err)
				}
			}
		})
	}
}

// keepsUp checks that the first n tasks did not wait for asynq: in less than a twentieth of the time no turn was taken.
// A turn that came late because the machine was busy is not judged.
func (w *workers) keepsUp(t *testing.T, rate leaky.Rate, n int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Sorted(slices.Values(w.at))[:n]
	took, best := at[n-1]-at[0], rate.Interval()*time.Duration(n-1)
	t.Logf("%.1f%% of the rate", 100*float64(best)/float64(took))
	idle := time.Duration(0)
	for i := range n - 1 {
		if gap := at[i+1] - at[i]; gap > 2*rate.Interval()+500*time.Millisecond {
			idle += gap
		}
	}
	if idle*20 > took {
		t.Errorf("of %v, %v had no task", took, idle)
	}
}

// A task that has no retry left waits, however far off its turn is: asynq would archive it.
func TestLimitOfLastTries(t *testing.T) {
	const n = 12
	s, o := redis(t)
	turns, _ := turnsAt(t, s, leaky.PerSecond(2))
	enqueue(t, o, "email:send", n, asynq.MaxRetry(0))
	config := asynq.Config{Concurrency: n, TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: time.Second}
	w := work(t, o, config, asynqtarget.Limit(&config)(turns))
	w.wait(t, n)
	w.judge(t, leaky.PerSecond(2))
}

// Tasks that have no limit find a worker beside a backlog of tasks whose turns are seconds apart. When the server shuts
// down the tasks that wait go back to asynq, and their turns to the queue.
func TestLimitLeavesAWorker(t *testing.T) {
	const n = 6
	s, o := redis(t)
	turns, e := turnsAt(t, s, mustRate(t, "1/3s"))
	enqueue(t, o, "email:send", 2*n, asynq.MaxRetry(1))
	config := asynq.Config{
		Concurrency: 2, Queues: map[string]int{"default": 1, "other": 1}, ShutdownTimeout: time.Second,
		LogLevel: asynq.FatalLevel,
	}
	limit := asynqtarget.Limit(&config)
	server, mux := asynq.NewServer(o, config), asynq.NewServeMux()
	var limited, free atomic.Int64
	count := func(n *atomic.Int64) asynq.Handler {
		return asynq.HandlerFunc(func(context.Context, *asynq.Task) error { n.Add(1); return nil })
	}
	mux.Handle("email:send", limit(turns)(count(&limited)))
	mux.Handle("free", count(&free))
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a limited task waits behind the first", func() bool {
		info, err := e.Get(t.Context(), "ses")
		return err == nil && limited.Load() > 0 && info.Waiting > 0
	})
	begin := limited.Load()
	enqueue(t, o, "free", n, asynq.Queue("other"))
	await.Until(t, "the other tasks are done", func() bool { return free.Load() == n })
	between := limited.Load() - begin
	server.Shutdown()
	turns.Close()
	if between > n/2 {
		t.Errorf("%d tasks of the limited queue started before %d that have no limit", between, n)
	}
	inspector := asynq.NewInspector(o)
	defer inspector.Close()
	info, err := inspector.GetQueueInfo("default")
	if err != nil || int64(info.Pending+info.Retry)+limited.Load() != 2*n || info.Archived != 0 || info.Active != 0 {
		t.Errorf("%d of %d started, the others are %+v, %v", limited.Load(), 2*n, info, err)
	}
	if q, err := e.Get(t.Context(), "ses"); err != nil || q.Size() != 0 {
		t.Errorf("%d turns are left, %v", q.Size(), err)
	}
}

func mustRate(t *testing.T, text string) leaky.Rate {
	t.Helper()
	r, err := leaky.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// noted are turns that note for how long a task would wait.
type noted struct {
	within time.Duration
	err    error
}

func (n *noted) Wait(_ context.Context, within time.Duration) error {
	n.within = within
	return n.err
}

// A task waits for as long as asynq does not look at tasks that were sent back, and leaves its handler half of its
// time.
func TestLimitWaitsWithin(t *testing.T) {
	rare := asynq.Config{DelayedTaskCheckInterval: time.Minute, TaskCheckInterval: 2 * time.Second}
	for name, c := range map[string]struct {
		config asynq.Config
		left   time.Duration
		want   time.Duration
	}{
		"asynq's settings":  {asynq.Config{}, time.Hour, 7 * time.Second},
		"settings":          {rare, time.Hour, 64 * time.Second},
		"a handler's time":  {asynq.Config{}, 4 * time.Second, 2 * time.Second},
		"negative settings": {asynq.Config{DelayedTaskCheckInterval: -1, TaskCheckInterval: -1}, time.Hour, 7 * time.Second},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), c.left)
		turns := &noted{}
		h := asynqtarget.Limit(&c.config)(turns)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
		if err := h.ProcessTask(ctx, asynq.NewTask("x", nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if turns.within > c.want || turns.within < c.want-time.Second {
			t.Errorf("%s: it waits %v, want %v", name, turns.within, c.want)
		}
		cancel()
	}
}

// Other errors stay asynq's business.
func TestOtherErrorsAreAsynqs(t *testing.T) {
	broken, later := errors.New("broken"), &pull.Later{In: time.Second}
	plain := asynq.Config{}
	asynqtarget.Limit(&plain)
	if !plain.IsFailure(broken) || plain.IsFailure(later) || plain.RetryDelayFunc(1, later, nil) != time.Second {
		t.Error("the defaults are not asynq's")
	}
	own := asynq.Config{
		IsFailure:      func(error) bool { return false },
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	}
	asynqtarget.Limit(&own)
	if own.IsFailure(broken) || own.RetryDelayFunc(1, broken, nil) != time.Hour ||
		own.RetryDelayFunc(1, later, nil) != time.Second {
		t.Error("what the configuration had is not asked")
	}
}

// A store that is away costs no task a retry.
func TestTurnsAreAway(t *testing.T) {
	started, config := false, asynq.Config{}
	h := asynqtarget.Limit(&config)(&noted{err: queue.ErrUnavailable})(
		asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			started = true
			return nil
		}))
	err := h.ProcessTask(t.Context(), asynq.NewTask("x", nil))
	if !errors.Is(err, queue.ErrUnavailable) || started || config.IsFailure(err) ||
		config.RetryDelayFunc(0, err, nil) != 5*time.Second {
		t.Errorf("%v; started: %v", err, started)
	}
}
