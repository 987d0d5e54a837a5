package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Causes of the end of a handler's context; see context.Cause.
var (
	ErrLeaseLost = errors.New("the lease of the job was lost: another worker may have it")
	ErrStopped   = errors.New("the worker is stopping")
	ErrTooLong   = errors.New("the handler did not return in time")
)

// Task is a job that a worker has leased.
type Task struct {
	PulledJob
	Queue string

	used *used
}

// used is what a job has used.
type used struct {
	mu     sync.Mutex
	actual map[string]int64
}

// ReportActual records what the job has used, by unit, such as tokens. It replaces the charge of the departure when the
// job is settled, however the job ends; units left out keep their charge. The last report counts. If the server refuses
// it, for example since no limit of the queue counts the unit, the job is settled without it (see NoticeSettleFailed).
func (t *Task) ReportActual(costs map[string]int64) {
	if t.used == nil { // the caller made the task, in a test
		t.used = &used{}
	}
	t.used.mu.Lock()
	defer t.used.mu.Unlock()
	t.used.actual = maps.Clone(costs)
}

// reported returns the last report.
func (t *Task) reported() map[string]int64 {
	if t.used == nil {
		return nil
	}
	t.used.mu.Lock()
	defer t.used.mu.Unlock()
	return t.used.actual
}

// Decode decodes the payload, if it is JSON.
func (t *Task) Decode(v any) error { return json.Unmarshal(t.Payload, v) }

// Worker works on the jobs of a pull queue. Each job starts when it may, and its lease is extended while the handler
// runs. If a worker is killed, other workers get its jobs when their leases end.
type Worker struct {
	Client *Client
	Queue  string
	// Handler works on a job. Without an error, the job is delivered. Any error but an Outcome means that the job is
	// retried, as the queue says. ctx ends if the lease is lost or the worker has to stop. A panic counts as an error.
	Handler func(ctx context.Context, task *Task) error
	// Concurrency is the maximum number of jobs at a time; 0 is 10.
	Concurrency int
	// Name is shown to people. The default is the host and the process id.
	Name string
	// Grace is how long handlers may run after the worker's context has ended; 0 is 30 s. Then their contexts end. Jobs
	// whose handlers do not return within a second of that are retried.
	Grace time.Duration
	// MaxTime is how long a handler may run; 0 is any time. Then it is left alone, and its job is retried.
	MaxTime time.Duration
}

const (
	pullWait  = 30 * time.Second // how long a worker's request waits for a job
	lastWord  = time.Second      // how long a handler may take to return when its context has ended
	lastTries = 30 * time.Second // how long leases are extended for their settlements when no handler runs any more
)

// shift is a run of a Worker.
type shift struct {
	*Worker
	base   context.Context // of the handlers and reports
	over   chan struct{}   // closed when the grace is over
	limit  int
	sem    chan struct{} // of running handlers
	tasks  sync.WaitGroup
	mu     sync.Mutex
	leases map[*lease]struct{}
	due    []*report     // settlements to send
	woken  chan struct{} // for the extender
	filled chan struct{} // for the settler
	closed bool          // no more settlements follow
}

// lease is a job under way.
type lease struct {
	task     *Task
	ctx      context.Context
	cancel   context.CancelCauseFunc
	deadline time.Time     // when the lease ends, by this machine's clock
	length   time.Duration // of the lease
	next     time.Time     // when to extend it
	lost     bool
	returned bool // its handler has returned or will not start; the lease is kept until it is settled
}

// Run works until ctx ends, and returns nil when all its jobs are settled or released. If the server is away or refuses
// to give out jobs, the worker reports this (see WithNotices) and tries again. An error is ErrInvalid.
func (w *Worker) Run(ctx context.Context) error {
	if w.Client == nil || w.Handler == nil || w.Queue == "" {
		return fmt.Errorf("%w: a worker needs a Client, a Queue and a Handler", ErrInvalid)
	}
	s := &shift{
		Worker: w, base: context.WithoutCancel(ctx), over: make(chan struct{}), limit: cmp.Or(w.Concurrency, 10),
		leases: map[*lease]struct{}{}, woken: make(chan struct{}, 1), filled: make(chan struct{}, 1),
	}
	s.sem = make(chan struct{}, s.limit)
	extending, stop := context.WithCancel(s.base)
	var extender, settler sync.WaitGroup
	extender.Go(func() { s.extend(extending) })
	settler.Go(s.settle)

	s.pull(ctx)
	grace := time.AfterFunc(cmp.Or(w.Grace, 30*time.Second), func() { close(s.over) })
	s.tasks.Wait()
	grace.Stop()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	wake(s.filled)
	late := time.AfterFunc(lastTries, stop)
	settler.Wait()
	late.Stop()
	stop()
	extender.Wait()
	return nil
}

// pull asks for jobs and starts them until ctx ends. A request that is under way then may bring jobs to release.
func (s *shift) pull(ctx context.Context) {
	asking, stop := outlast(ctx, lastAnswer)
	defer stop()
	name := s.Name
	if name == "" {
		host, _ := os.Hostname() // a name for people
		name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	name = strings.Map(func(r rune) rune {
		if r < '!' || r > '~' {
			return '_'
		}
		return r
	}, name)
	name = name[max(0, len(name)-64):]
	for failures := 0; ; {
		free := s.room(ctx)
		if free == 0 {
			return
		}
		var answer struct {
			Jobs []PulledJob `json:"jobs"`
		}
		_, err := s.Client.Do(asking, &Request{
			Method: http.MethodPost, Path: queuePath(s.Queue, "leases"), Wait: pullWait,
			Body: map[string]any{"max": min(free, 500), "wait": pullWait.String(), "worker": name},
		}, &answer)
		if err == nil {
			failures = 0
			s.start(ctx, answer.Jobs)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		failures++
		pause := pauseAfter(err, failures)
		s.Client.tell(Notice{Kind: NoticeLeaseFailed, Queue: s.Queue, Attempt: failures, Err: err, Pause: pause})
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// hopeless reports whether the server will refuse a settlement again.
func (s *shift) hopeless(err error) bool {
	var p *Problem
	switch {
	case !errors.As(err, &p):
		return false
	case p.Status == http.StatusUnauthorized:
		return !s.Client.token.renewable()
	case p.Reason == ReasonHTTPError, p.Status == http.StatusRequestTimeout, p.Status == http.StatusTooManyRequests:
		return false
	}
	return p.Status < 500
}

// room waits until another job may run, and returns how many may. It returns 0 when ctx ends.
func (s *shift) room(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case s.sem <- struct{}{}:
		<-s.sem
		return max(1, s.limit-len(s.sem))
	case <-ctx.Done():
		return 0
	}
}

// start starts jobs, or releases them if the worker is stopping.
func (s *shift) start(ctx context.Context, jobs []PulledJob) {
	now := time.Now()
	for i := range jobs {
		left := milliseconds(jobs[i].ExpiresInMS)
		l := &lease{
			task:     &Task{PulledJob: jobs[i], Queue: s.Queue, used: &used{}},
			deadline: now.Add(left), length: left, next: now.Add(left / 3),
		}
		l.ctx, l.cancel = context.WithCancelCause(s.base)
		l.returned = ctx.Err() != nil
		s.mu.Lock()
		s.leases[l] = struct{}{}
		s.mu.Unlock()
		if l.returned {
			s.report(l, Released())
			continue
		}
		s.sem <- struct{}{}
		s.tasks.Go(func() {
			err := s.work(l)
			s.mu.Lock()
			lost := l.lost
			if l.returned = true; lost {
				delete(s.leases, l)
			}
			s.mu.Unlock()
			if !lost {
				s.report(l, err)
			}
			l.cancel(nil)
			<-s.sem
		})
	}
	wake(s.woken)
}

// work runs the handler, and returns its result.
func (s *shift) work(l *lease) error {
	result := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			if v := recover(); v != nil {
				err := fmt.Errorf("the handler panicked: %v", v)
				s.Client.tell(Notice{Kind: NoticeMisuse, Queue: s.Queue, ID: l.task.ID, Err: err})
				result <- err
			} else if !returned {
				result <- errors.New("the handler ended its goroutine")
			}
		}()
		err := s.Handler(l.ctx, l.task)
		returned = true
		result <- err
	}()
	var limit <-chan time.Time
	if s.MaxTime > 0 {
		timer := time.NewTimer(s.MaxTime)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case err := <-result:
		return err
	case <-limit:
		l.cancel(ErrTooLong)
		s.Client.tell(Notice{Kind: NoticeAbandoned, Queue: s.Queue, ID: l.task.ID, Err: ErrTooLong})
		return ErrTooLong
	case <-s.over:
		l.cancel(ErrStopped)
	}
	select {
	case err := <-result:
		return err
	case <-time.After(lastWord):
		return Retry(0, "the worker stopped")
	}
}

// wake wakes the reader of a channel with a buffer of 1.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
