package pull_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a store on a file, a clock that stands unless it is moved, and a desk.
type bench struct {
	*testing.T
	ctx    context.Context
	engine *boltq.Engine
	desk   *pull.Desk
	stop   func()
	counts counts

	mu  sync.Mutex
	now leaky.Instant
}

// counts is what the desk's observer was told.
type counts struct {
	mu       sync.Mutex
	changed  sync.Cond
	waiting  int
	handed   int
	released map[pull.Reason]int
}

func (c *counts) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.changed.Broadcast()
}

// await waits until what the observer was told is so.
func (c *counts) await(done func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !done() {
		c.changed.Wait()
	}
}

func (c *counts) Waiting(n int)                    { c.note(func() { c.waiting = n }) }
func (c *counts) Handed(string, time.Duration)     { c.note(func() { c.handed++ }) }
func (c *counts) Released(_ string, w pull.Reason) { c.note(func() { c.released[w]++ }) }
func (c *counts) Lost(string, int64)               {}
func (c *counts) Expired(string)                   {}

func start(t *testing.T, o pull.Options, wrap func(pull.Engine) pull.Engine) *bench {
	b := &bench{T: t, ctx: t.Context(), now: leaky.Instant(time.Now().UnixMicro())}
	b.counts.released = map[pull.Reason]int{}
	b.counts.changed.L = &b.counts.mu
	var err error
	b.engine, err = boltq.Open(b.ctx, filepath.Join(t.TempDir(), "store"), boltq.Options{Now: b.clock})
	b.check(err)
	t.Cleanup(func() { b.check(b.engine.Close()) })
	o.Observer = &b.counts
	var engine pull.Engine = b.engine
	if wrap != nil {
		engine = wrap(engine)
	}
	b.desk = pull.New(engine, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.desk.Run(ctx) }()
	b.stop = sync.OnceFunc(func() { cancel(); b.check(<-ended) })
	t.Cleanup(b.stop)
	return b
}

func (b *bench) check(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) clock() leaky.Instant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *bench) put(name, rate string, change ...func(*queue.Spec)) {
	b.Helper()
	r, err := leaky.ParseRate(rate)
	b.check(err)
	s := queue.Spec{Name: name, Rate: r, Pull: true}
	for _, c := range change {
		c(&s)
	}
	_, err = b.engine.Put(b.ctx, s, queue.AnyRevision)
	b.check(err)
}

func (b *bench) append(name string, ids ...string) {
	b.Helper()
	var jobs []queue.Job
	for _, id := range ids {
		jobs = append(jobs, queue.Job{Queue: name, ID: id, Payload: []byte(`{"id":"` + id + `"}`)})
	}
	answers, err := b.engine.Append(b.ctx, jobs)
	b.check(err)
	for _, a := range answers {
		if a.Outcome != queue.Accepted {
			b.Fatal(a)
		}
	}
}

// told is a job as a worker is told it.
type told struct {
	ID, Lease     string
	Payload       json.RawMessage
	PayloadBase64 string `json:"payload_base64"`
	ContentType   string `json:"content_type"`
	Headers       map[string]string
	Lane          string
	Priority      int
	Cost          int64
	Attempt       int
	AppendedAt    time.Time `json:"appended_at"`
	ExpiresAt     time.Time `json:"expires_at"`
	ExpiresInMS   int64     `json:"expires_in_ms"`
}

func (b *bench) read(h *pull.Handed) []told {
	b.Helper()
	var answer struct{ Jobs []told }
	b.check(json.Unmarshal(h.Body, &answer))
	if len(answer.Jobs) != h.Jobs() {
		b.Fatalf("%d jobs in %s", h.Jobs(), h.Body)
	}
	return answer.Jobs
}

// take takes jobs, which must be these.
func (b *bench) take(name string, most int, wait time.Duration, want ...string) []told {
	b.Helper()
	h, err := b.desk.Take(b.ctx, pull.Ask{Queue: name, Max: most, Wait: wait})
	b.check(err)
	h.End(true)
	jobs := b.read(h)
	var have []string
	for _, j := range jobs {
		have = append(have, j.ID)
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		b.Fatalf("taken %v, want %v", have, want)
	}
	return jobs
}

func (b *bench) state(want queue.State, name, id string) queue.JobInfo {
	b.Helper()
	i, err := b.engine.Job(b.ctx, name, id)
	b.check(err)
	if i.State != want {
		b.Fatalf("%s is %v, want %v", id, i.State, want)
	}
	return i
}

func TestWhatAWorkerIsTold(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	_, err := b.engine.Append(b.ctx, []queue.Job{
		{Queue: "q", ID: "a", Payload: []byte(`{"n": 12345678901234567890, "n": []}`), Headers: map[string]string{"X-A": "1", "X-B": "2"}, Cost: 3, Lane: "l<", Priority: 7},
		{Queue: "q", ID: "b", Payload: []byte("\xff\n"), ContentType: "text/plain"},
		{Queue: "q", ID: "c", Payload: []byte("not JSON")},
		{Queue: "q", ID: "d", Payload: []byte(`"x"`), ContentType: "application/cloudevents+json; charset=utf-8"},
	})
	b.check(err)
	h, err := b.desk.Take(b.ctx, pull.Ask{Queue: "q", Max: 9})
	b.check(err)
	h.End(true)
	byID := map[string]told{}
	for _, j := range b.read(h) {
		byID[j.ID] = j
		if fence, attempt, ok := pull.ParseToken(j.Lease); !ok || attempt != 1 || fence == "" {
			t.Errorf("the lease %q", j.Lease)
		}
		if j.ExpiresInMS <= 29_000 || j.ExpiresInMS > 30_000 || time.Until(j.ExpiresAt) > 30*time.Second || j.AppendedAt.UnixMicro() != int64(b.clock()) || j.Attempt != 1 {
			t.Errorf("got %+v", j)
		}
	}
	a := byID["a"]
	if string(a.Payload) != `{"n": 12345678901234567890, "n": []}` || a.Headers["X-B"] != "2" || a.Cost != 3 || a.Lane != "l<" || a.Priority != 7 || a.ContentType != "application/json" {
		t.Errorf("got %+v", a)
	}
	if v := byID["b"]; v.PayloadBase64 != "/wo=" || v.Payload != nil || v.ContentType != "text/plain" || v.Cost != 1 {
		t.Errorf("got %+v", v)
	}
	if v := byID["c"]; v.PayloadBase64 != "bm90IEpTT04=" {
		t.Errorf("got %+v", v)
	}
	if v := byID["d"]; string(v.Payload) != `"x"` {
		t.Errorf("got %+v", v)
	}
	for _, token := range []string{"", "1", "1-", "-x", "0-x", "x-x", "-1-x"} {
		if _, _, ok := pull.ParseToken(token); ok {
			t.Errorf("%q is taken for a lease", token)
		}
	}
}

func TestNothingToTake(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "1/h")
	b.take("q", 9, 0)
	b.append("q", "a", "b")
	b.take("q", 9, 0, "a")
	b.take("q", 9, 20*time.Millisecond)
	if _, err := b.desk.Take(b.ctx, pull.Ask{Queue: "nobody", Max: 1, Wait: time.Hour}); !errors.Is(err, queue.ErrUnknownQueue) {
		t.Errorf("an unknown queue: %v", err)
	}
	b.put("plain", "1/s", func(s *queue.Spec) { s.Pull = false })
	var field *queue.FieldError
	if _, err := b.desk.Take(b.ctx, pull.Ask{Queue: "plain", Max: 1, Wait: time.Hour}); !errors.As(err, &field) || field.Field != "queue" {
		t.Errorf("not a pull queue: %v", err)
	}
	b.put("plain", "unlimited")
	b.append("plain", "x")
	b.take("plain", 1, time.Minute, "x") // a line that ended begins anew
}

// patient answers that nothing will be due for an hour: only a wake-up is heard.
type patient struct{ pull.Engine }

func (p patient) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	res, err := p.Engine.Reserve(ctx, r)
	if len(res.Jobs) == 0 {
		res.Next = time.Hour
	}
	return res, err
}

func TestAnAppendReachesWhoWaits(t *testing.T) {
	asked := make(chan struct{}, 100)
	b := start(t, pull.Options{}, func(e pull.Engine) pull.Engine { return noted{patient{e}, asked} })
	b.put("q", "unlimited")
	got := make(chan []told, 1)
	go func() { got <- b.take("q", 9, time.Hour, "a") }()
	<-asked // and found nothing
	b.append("q", "a")
	<-got
}

// noted tells when the engine has answered.
type noted struct {
	pull.Engine
	asked chan struct{}
}

func (e noted) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	res, err := e.Engine.Reserve(ctx, r)
	e.asked <- struct{}{}
	return res, err
}

func TestOneJobForTwo(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	got := make(chan int, 2)
	for range 2 {
		go func() {
			h, err := b.desk.Take(b.ctx, pull.Ask{Queue: "q", Max: 5, Wait: time.Hour})
			if err != nil {
				t.Error(err)
			}
			h.End(true)
			got <- h.Jobs()
		}()
	}
	b.counts.await(func() bool { return b.counts.waiting == 2 })
	b.append("q", "a")
	if n := <-got; n != 1 {
		t.Errorf("the first got %d", n)
	}
	b.stop()
	if n := <-got; n != 0 {
		t.Errorf("the second got %d", n)
	}
}

// The timeline of a job tells which worker had it.
func TestWorkersName(t *testing.T) {
	b := start(t, pull.Options{Name: "ingress"}, nil)
	b.put("q", "unlimited")
	b.append("q", "a", "b", "c")
	for _, worker := range []string{"one", "two", ""} {
		h, err := b.desk.Take(b.ctx, pull.Ask{Queue: "q", Max: 1, Worker: worker})
		b.check(err)
		h.End(true)
		j := b.read(h)[0]
		fence, _, _ := pull.ParseToken(j.Lease)
		_, err = b.engine.Settle(b.ctx, []queue.Settlement{{Lease: queue.Lease{Queue: "q", ID: j.ID, Fence: fence}, Verdict: queue.Bury}})
		b.check(err)
		if worker == "" {
			worker = "ingress"
		}
		if i := b.state(queue.Dead, "q", j.ID); len(i.Timeline) != 1 || i.Timeline[0].Drainer != worker {
			t.Errorf("%s was with %s: %+v", j.ID, worker, i.Timeline)
		}
	}
}

func TestServedInOrder(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	const n = 5
	var order [n]chan string
	for i := range n {
		order[i] = make(chan string, 1)
		go func() {
			h, err := b.desk.Take(b.ctx, pull.Ask{Queue: "q", Max: 1, Wait: time.Hour})
			if err != nil {
				t.Error(err)
				return
			}
			h.End(true)
			order[i] <- b.read(h)[0].ID
		}()
		b.counts.await(func() bool { return b.counts.waiting == i+1 })
	}
	b.append("q", "0", "1", "2", "3", "4")
	for i := range n {
		if id := <-order[i]; id != fmt.Sprint(i) {
			t.Errorf("request %d got %s", i, id)
		}
	}
}

// What cannot be written is given back: the job keeps its turn and spends no attempt.
func TestGone(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	b.append("q", "a")
	h, err := b.desk.Take(b.ctx, pull.Ask{Queue: "q", Max: 1})
	b.check(err)
	b.state(queue.Leased, "q", "a")
	h.End(false)
	if i := b.state(queue.Waiting, "q", "a"); i.Attempts != 0 {
		t.Errorf("got %+v", i)
	}
	gone, leave := context.WithCancel(b.ctx)
	leave()
	if _, err := b.desk.Take(gone, pull.Ask{Queue: "q", Max: 1, Wait: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.take("q", 1, time.Hour, "a")
}

// A client that goes away while it waits leaves its job to the next.
func TestGoneWhileWaiting(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited")
	ctx, leave := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := b.desk.Take(ctx, pull.Ask{Queue: "q", Max: 1, Wait: time.Hour})
		ended <- err
	}()
	b.counts.await(func() bool { return b.counts.waiting == 1 })
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.append("q", "a")
	b.take("q", 1, time.Hour, "a")
}

// A request that waits is answered when the desk stops, and what it was granted is given back.
func TestStop(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	b := start(t, pull.Options{}, func(e pull.Engine) pull.Engine { return slow{e, held, hold} })
	b.put("q", "unlimited")
	b.append("q", "a")
	got := make(chan int, 1)
	go func() {
		h, err := b.desk.Take(b.ctx, pull.Ask{Queue: "q", Max: 1, Wait: time.Hour})
		if err != nil {
			t.Error(err)
		}
		got <- h.Jobs()
	}()
	<-held // granted, and the answer is on its way
	stopped := make(chan struct{})
	go func() { defer close(stopped); b.stop() }()
	if n := <-got; n != 0 {
		t.Errorf("%d jobs", n)
	}
	close(hold)
	<-stopped
	if i := b.state(queue.Waiting, "q", "a"); i.Attempts != 0 {
		t.Errorf("got %+v", i)
	}
	if h, err := b.desk.Take(b.ctx, pull.Ask{Queue: "q", Max: 1, Wait: time.Hour}); err != nil || h.Jobs() != 0 {
		t.Errorf("after the stop: %v", err)
	}
}

// slow holds the engine's answers back.
type slow struct {
	pull.Engine
	held, hold chan struct{}
}

func (s slow) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	res, err := s.Engine.Reserve(ctx, r)
	select {
	case s.held <- struct{}{}:
	default:
	}
	<-s.hold
	return res, err
}

// An answer that comes too late is of no use: the job is given back, and granted anew.
func TestLate(t *testing.T) {
	e := &tardy{}
	b := start(t, pull.Options{}, func(of pull.Engine) pull.Engine { e.Engine = of; return e })
	b.put("q", "10/s", func(s *queue.Spec) { s.Slack = queue.Duration(time.Minute); s.Lease = queue.Duration(time.Hour) })
	b.append("q", "a")
	b.take("q", 1, time.Hour, "a")
	b.counts.await(func() bool { return b.counts.released[pull.Late] == 1 && b.counts.handed == 1 })
}

// tardy says of its first grant that it departed long ago.
type tardy struct {
	pull.Engine
	once sync.Once
}

func (e *tardy) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	res, err := e.Engine.Reserve(ctx, r)
	if len(res.Jobs) > 0 {
		e.once.Do(func() { res.Jobs[0].In = -time.Minute - time.Second })
	}
	return res, err
}

// A reply that is lost loses no job.
func TestLostReply(t *testing.T) {
	e := &lossy{}
	b := start(t, pull.Options{}, func(of pull.Engine) pull.Engine { e.Engine = of; return e })
	b.put("q", "unlimited")
	b.append("q", "a", "b")
	b.take("q", 9, time.Hour, "a", "b")
}

type lossy struct {
	pull.Engine
	once sync.Once
}

func (e *lossy) Reserve(ctx context.Context, r queue.ReserveRequest) (res queue.Reserved, err error) {
	res, err = e.Engine.Reserve(ctx, r)
	e.once.Do(func() { res, err = queue.Reserved{}, queue.ErrOutcomeUnknown })
	return res, err
}

// While the store is away a request waits, and is told so when its wait is over.
func TestStoreAway(t *testing.T) {
	b := start(t, pull.Options{}, func(e pull.Engine) pull.Engine { return away{e} })
	b.put("q", "unlimited")
	if _, err := b.desk.Take(b.ctx, pull.Ask{Queue: "q", Max: 1, Wait: 50 * time.Millisecond}); !errors.Is(err, queue.ErrUnavailable) {
		t.Error(err)
	}
}

type away struct{ pull.Engine }

func (away) Reserve(context.Context, queue.ReserveRequest) (queue.Reserved, error) {
	return queue.Reserved{}, queue.ErrUnavailable
}

func TestBounds(t *testing.T) {
	b := start(t, pull.Options{MaxWaiting: 3, MaxQueue: 2}, nil)
	b.put("q", "unlimited")
	b.put("r", "unlimited")
	var all sync.WaitGroup
	wait := func(name string) {
		all.Go(func() { b.take(name, 1, time.Hour) })
	}
	refused := func(want error, name string) {
		t.Helper()
		if _, err := b.desk.Take(b.ctx, pull.Ask{Queue: name, Max: 1, Wait: time.Hour}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	wait("q")
	wait("q")
	b.counts.await(func() bool { return b.counts.waiting == 2 })
	refused(pull.ErrCrowded, "q")
	wait("r")
	b.counts.await(func() bool { return b.counts.waiting == 3 })
	refused(pull.ErrOverloaded, "r")
	b.stop()
	all.Wait()
	if b.counts.waiting != 0 {
		t.Errorf("%d wait", b.counts.waiting)
	}
}

// A worker that never settles: its leases run out, and the last attempt is the end.
func TestNeverSettled(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("q", "unlimited", func(s *queue.Spec) { s.Retry.MaxAttempts = 3 })
	b.append("q", "a")
	for attempt := 1; attempt <= 3; attempt++ {
		if j := b.take("q", 1, 0, "a"); j[0].Attempt != attempt {
			t.Errorf("attempt %d, want %d", j[0].Attempt, attempt)
		}
		b.take("q", 1, 0)
		b.advance(queue.DefaultLease + time.Second)
	}
	b.take("q", 1, 0)
	b.state(queue.Dead, "q", "a")
}
