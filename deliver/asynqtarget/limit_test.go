package asynqtarget_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
			line := &line{turns: turns}
			w := work(t, o, c.config, limit(line))
			w.wait(t, c.tasks)
			w.judge(t, c.rate)
			w.keepsUp(t, line, c.tasks*2/3) // until then there is a backlog, wherever its tasks are
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

// line notes when no task waits for its turn.
type line struct {
	turns asynqtarget.Turns
	mu    sync.Mutex
	n     int
	empty time.Time // since when
	gaps  []gap
}

type gap struct{ from, to time.Time }

func (l *line) Wait(ctx context.Context, within time.Duration) error {
	l.join()
	defer l.leave()
	return l.turns.Wait(ctx, within)
}

func (l *line) join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n++; l.n == 1 && !l.empty.IsZero() {
		l.gaps = append(l.gaps, gap{l.empty, time.Now()})
	}
}

func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n--; l.n == 0 {
		l.empty = time.Now()
	}
}

// keepsUp checks that the first n tasks did not wait for asynq: in less than a twentieth of the time no task waited for
// its turn, though there were some. A worker needs a moment for its next task.
func (w *workers) keepsUp(t *testing.T, line *line, n int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Sorted(slices.Values(w.at))[:n]
	end := w.begin.Add(at[n-1])
	line.mu.Lock()
	defer line.mu.Unlock()
	idle := time.Duration(0)
	for _, g := range line.gaps {
		if took := g.to.Sub(g.from); took > 500*time.Millisecond && g.to.Before(end) {
			idle += took
		}
	}
	if took := at[n-1] - at[0]; idle*20 > took {
		t.Errorf("of %v, no task waited for %v", took, idle)
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
	waits := &waits{turns: turns}
	mux.Handle("email:send", limit(waits)(count(&limited)))
	mux.Handle("free", count(&free))
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a limited task waits behind the first", func() bool {
		info, err := e.Get(t.Context(), "ses")
		return err == nil && limited.Load() > 0 && info.Waiting > 0
	})
	enqueue(t, o, "free", n, asynq.Queue("other"))
	await.Until(t, "the other tasks are done", func() bool { return free.Load() == n })
	server.Shutdown()
	turns.Close()
	if waits.together.Load() {
		t.Error("both workers waited, and for more than a second")
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

// waits notes whether several tasks waited together for so long that one should have left its worker to others.
type waits struct {
	turns    asynqtarget.Turns
	long     atomic.Int64 // that wait for so long now
	together atomic.Bool
}

func (w *waits) Wait(ctx context.Context, within time.Duration) error {
	long := time.AfterFunc(2500*time.Millisecond, func() { // a second, and what a busy machine takes to end it
		if w.long.Add(1) > 1 {
			w.together.Store(true)
		}
	})
	err := w.turns.Wait(ctx, within)
	if !long.Stop() {
		w.long.Add(-1)
	}
	return err
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
