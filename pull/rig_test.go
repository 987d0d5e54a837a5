package pull_test

import (
	"context"
	"encoding/json"
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
	"github.com/penstock/penstock/queue/unit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a store on a file, a clock that stands still until moved, and a dispatcher.
type bench struct {
	*testing.T
	ctx        context.Context
	engine     *boltq.Engine
	dispatcher *pull.Dispatcher
	stop       func()
	counts     counts

	mu  sync.Mutex
	now leaky.Instant
}

// counts records the calls to the dispatcher's observer.
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

// await waits until the observer's record satisfies done.
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
	var engine pull.Engine = unvouched{b.engine}
	if wrap != nil {
		engine = wrap(engine)
	}
	b.dispatcher = pull.New(engine, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.dispatcher.Run(ctx) }()
	b.stop = sync.OnceFunc(func() { cancel(); b.check(<-ended) })
	t.Cleanup(b.stop)
	return b
}

// unvouched hides from the engine that callers know its clock, which moves as a test likes.
type unvouched struct{ *boltq.Engine }

func (e unvouched) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	r.Latest = time.Time{}
	return e.Engine.Reserve(ctx, r)
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
	// On a busy machine a single request could otherwise be too late for its job.
	s := queue.Spec{Name: name, Rate: r, Pull: true, Slack: unit.Duration(10 * time.Second)}
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

// told is a job as a worker receives it.
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

func (b *bench) read(h *pull.Batch) []told {
	b.Helper()
	var answer struct{ Jobs []told }
	b.check(json.Unmarshal(h.Body, &answer))
	if len(answer.Jobs) != h.Jobs() {
		b.Fatalf("%d jobs in %s", h.Jobs(), h.Body)
	}
	return answer.Jobs
}

// take takes jobs and checks their ids.
func (b *bench) take(name string, most int, wait time.Duration, want ...string) []told {
	b.Helper()
	h, err := b.dispatcher.Lease(b.ctx, pull.Request{Queue: name, Max: most, Wait: wait})
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
