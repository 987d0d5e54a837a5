package drain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is one scripted answer to Reserve.
type answer struct {
	trip time.Duration // from the request to the answer
	jobs []queue.Reservation
	err  error
	more queue.Reserved // the rest of the answer
}

// asked is one request that the fake saw.
type asked struct {
	at time.Duration
	queue.ReserveRequest
}

// settled is one settlement that the fake saw.
type settled struct {
	at time.Duration
	queue.Settlement
}

// fake is an engine that follows a script. Its zero hooks succeed.
type fake struct {
	begin   time.Time
	script  map[int][]answer // by partition
	specs   map[string]queue.Info
	parts   int
	wakeups chan queue.Wakeup
	ext     func(at time.Duration) (time.Duration, error)
	set     func(at time.Duration, s queue.Settlement) (queue.Settled, error)
	get     func(name string) error
	more    int           // sweeps with remains
	synced  time.Duration // duration of the answers from which the clock is known

	mu       sync.Mutex
	requests []asked
	settles  []settled
	calls    int // of Settle
	extends  []time.Duration
	reads    map[string]int // of specs, by name
	sweeps   int
	last     map[int]granted
}

// granted is the last answer of a partition.
type granted struct {
	number uint64
	answer answer
	at     time.Duration
}

func newFake() *fake {
	return &fake{
		begin: time.Now(), parts: 1, script: map[int][]answer{}, specs: map[string]queue.Info{},
		wakeups: make(chan queue.Wakeup, 16), last: map[int]granted{}, reads: map[string]int{},
	}
}

func (f *fake) now() time.Duration { return time.Since(f.begin) }

// queue adds a queue.
func (f *fake) queue(name string, rate leaky.Rate, change func(*queue.Spec)) *fake {
	s := queue.Spec{Name: name, Rate: rate}
	if change != nil {
		change(&s)
	}
	s.Normalize()
	f.specs[name] = queue.Info{Spec: s, Revision: 1}
	return f
}

// answers appends to the script of partition 0.
func (f *fake) answers(a ...answer) *fake {
	f.script[0] = append(f.script[0], a...)
	return f
}

// job returns a reservation that departs in d.
func job(name, id string, d time.Duration) queue.Reservation {
	return queue.Reservation{
		Job: queue.Job{Queue: name, ID: id, Cost: 1}, Fence: queue.Fence("f" + id), In: d,
		Lease: queue.DefaultLease, Attempt: 1, Revision: 1,
	}
}

func (f *fake) Partitions() int { return f.parts }

// pings returns the number of requests for the clock, which other tests do not count. A slow one is repeated.
func (f *fake) pings() uint64 {
	if f.synced > queue.LeastSlack/2 {
		return 2
	}
	return 1
}

// pinged is how long they take.
func (f *fake) pinged() time.Duration { return time.Duration(f.pings()) * f.synced }

func (f *fake) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	if r.Number <= f.pings() && r.Max == 0 {
		now := time.Now()
		time.Sleep(f.synced)
		return queue.Reserved{Now: now}, nil
	}
	r.Number -= f.pings()
	f.mu.Lock()
	f.requests = append(f.requests, asked{f.now(), r})
	if r.Max == 0 { // nothing can be granted, whatever the script says
		f.mu.Unlock()
		return queue.Reserved{Next: 2 * time.Second, Now: time.Now()}, nil
	}
	if last, ok := f.last[r.Partition]; ok && last.number == r.Number {
		f.mu.Unlock()
		return f.again(last)
	}
	a := answer{more: queue.Reserved{Next: 2 * time.Second, Backup: 250 * time.Millisecond}}
	if s := f.script[r.Partition]; len(s) > 0 {
		a, f.script[r.Partition] = s[0], s[1:]
		if a.more.Next == 0 {
			a.more.Next = 2 * time.Second
		}
		if a.more.Next < 0 {
			a.more.Next = 0
		}
		if a.more.Backup == 0 {
			a.more.Backup = 250 * time.Millisecond
		}
	}
	at, now := f.now(), time.Now()
	f.mu.Unlock()
	if a.trip > 0 {
		select {
		case <-time.After(a.trip):
		case <-ctx.Done():
			return queue.Reserved{}, fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, ctx.Err())
		}
	}
	if a.err != nil {
		return queue.Reserved{}, a.err
	}
	a.more.Jobs, a.more.Now = a.jobs, now
	f.mu.Lock()
	f.last[r.Partition] = granted{r.Number, a, at}
	f.mu.Unlock()
	return a.more, nil
}

// again repeats an answer with its departures counted anew.
func (f *fake) again(last granted) (queue.Reserved, error) {
	res := last.answer.more
	res.Jobs, res.Now = slices.Clone(last.answer.jobs), time.Now()
	for i := range res.Jobs {
		res.Jobs[i].In -= f.now() - last.at
	}
	time.Sleep(last.answer.trip)
	return res, nil
}

func (f *fake) Settle(_ context.Context, s []queue.Settlement) ([]queue.Settled, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	answers := make([]queue.Settled, len(s))
	for i, one := range s {
		state := map[queue.Verdict]queue.State{
			queue.Deliver: queue.Delivered, queue.Fail: queue.Scheduled, queue.Bury: queue.Dead, queue.Release: queue.Waiting,
		}[one.Verdict]
		answers[i] = queue.Settled{State: state}
		if f.set != nil {
			var err error
			if answers[i], err = f.set(f.now(), one); err != nil {
				return nil, err
			}
		}
		if answers[i].Err == nil {
			f.settles = append(f.settles, settled{f.now(), one})
		}
	}
	return answers, nil
}

func (f *fake) Extend(_ context.Context, leases []queue.Lease) ([]queue.Extended, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.extends = append(f.extends, f.now())
	answers := make([]queue.Extended, len(leases))
	for i := range answers {
		answers[i].Left = queue.DefaultLease
		if f.ext != nil {
			var err error
			if answers[i].Left, err = f.ext(f.now()); err != nil {
				return nil, err
			}
		}
	}
	return answers, nil
}

func (f *fake) Wake(ctx context.Context) <-chan queue.Wakeup {
	out := make(chan queue.Wakeup)
	go func() {
		defer close(out)
		for {
			select {
			case w := <-f.wakeups:
				select {
				case out <- w:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (f *fake) Sweep(context.Context, int) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweeps++
	f.more--
	return f.more > 0, nil
}

func (f *fake) ReadSpecs(_ context.Context, names []string) (found []queue.KeptSpec, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.reads[name]++
		if f.get != nil {
			if err := f.get(name); err != nil {
				return nil, err
			}
		}
		if info, ok := f.specs[name]; ok {
			found = append(found, queue.KeptSpec{Revision: info.Revision, Spec: info.Spec})
		}
	}
	return found, nil
}

// verdicts returns the settlements by job.
func (f *fake) verdicts() map[string]settled {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := make(map[string]settled)
	for _, s := range f.settles {
		m[s.ID] = s
	}
	return m
}

func (f *fake) asked() []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// watch is an Observer that records its calls.
type watch struct {
	NoObserver
	mu       sync.Mutex
	released map[Reason]int
	lost     int
	given    int
	slots    map[string]int64
	expired  int
	late     []time.Duration
	states   map[queue.State]int
	free     int
}

func newWatch() *watch {
	return &watch{released: map[Reason]int{}, slots: map[string]int64{}, states: map[queue.State]int{}}
}

func (w *watch) do(f func()) { w.mu.Lock(); defer w.mu.Unlock(); f() }

func (w *watch) Released(_ string, why Reason)          { w.do(func() { w.released[why]++ }) }
func (w *watch) LeaseLost(string)                       { w.do(func() { w.lost++ }) }
func (w *watch) Unsettled(string, queue.Verdict, error) { w.do(func() { w.given++ }) }
func (w *watch) Lost(name string, n int64)              { w.do(func() { w.slots[name] += n }) }
func (w *watch) Expired(string)                         { w.do(func() { w.expired++ }) }
func (w *watch) Departed(_ *Job, late time.Duration)    { w.do(func() { w.late = append(w.late, late) }) }
func (w *watch) Free(n int)                             { w.do(func() { w.free = n }) }
func (w *watch) Settled(_ string, _ queue.Verdict, s queue.State) {
	w.do(func() { w.states[s]++ })
}

// starts is a handler that records when each job started.
type starts struct {
	f  *fake
	mu sync.Mutex
	at map[string]time.Duration
	do func(ctx context.Context, job *Job) error
}

func newStarts(f *fake) *starts { return &starts{f: f, at: map[string]time.Duration{}} }

func (s *starts) Handle(ctx context.Context, job *Job, gate Gate) error {
	if err := gate.Wait(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.at[job.ID] = s.f.now()
	s.mu.Unlock()
	if s.do != nil {
		return s.do(ctx, job)
	}
	return nil
}

// drained is a Run in progress in a bubble.
type drained struct {
	t    *testing.T
	stop context.CancelFunc
	end  chan error
}

func drainWith(t *testing.T, f *fake, h Handler, o Options) *drained {
	o.PlainTimers = true
	ctx, stop := context.WithCancel(context.Background())
	d := &drained{t, stop, make(chan error, 1)}
	go func() { d.end <- Run(ctx, f, h, o) }()
	return d
}

// finish stops the drainer and expects a clean end.
func (d *drained) finish() {
	d.t.Helper()
	d.stop()
	if err := <-d.end; err != nil {
		d.t.Errorf("Run: %v", err)
	}
}

// bubble runs a test on a clock that advances only while everything waits.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

const (
	ms = time.Millisecond
	us = time.Microsecond
)
