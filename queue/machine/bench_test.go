package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// bench is an engine with a clock that the test moves.
type bench struct {
	*Engine
	testing.TB
	mu     sync.Mutex
	at     leaky.Instant
	number uint64
}

// Options are those of a test's engine.
type Options struct {
	fault  func(*Commit) error
	behind bool   // what was taken is kept by other commits alone
	synced func() // called when a commit is durable
}

func (b *bench) clock() leaky.Instant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

func (b *bench) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

func start(t testing.TB, o Options) *bench {
	b := &bench{TB: t, at: noon}
	b.Engine = newEngine(b.clock)
	b.behind = o.behind
	b.synced, b.fault = o.synced, o.fault
	return b
}

// reopen is an orderly end, and another process.
func (e *Engine) reopen() {
	c := e.CollectLast(e.now())
	if err := e.store.Update(func(tx Transaction) error { return c.Write(tx, writeOptions) }); err != nil {
		panic(err)
	}
	e.crash()
}

// crash is the end of a process without a last word, and another one.
func (e *Engine) crash() {
	e.read(func(tx Transaction) { e.last, _ = ClockOf(tx) })
	e.offset = 0
	next := New(e.epoch + 1)
	e.load(next, e.now())
	e.Machine = next
	for more := true; more; {
		_, more = next.TakeBackPersisted(e.now())
		if err := e.commit(e.now()); err != nil {
			panic(err)
		}
	}
}

// meddle changes what is kept.
func (b *bench) meddle(do func(tx Transaction) error) {
	b.Helper()
	if err := b.store.Update(do); err != nil {
		b.Fatal(err)
	}
}

// records counts what is in a table.
func (b *bench) records(table []byte) (n int) {
	b.read(func(tx Transaction) {
		_ = forEach(tx.Table(table), func(_, _ []byte) error { n++; return nil })
	})
	return n
}

// noSpace fails commits for want of room.
type noSpace struct{ all atomic.Bool }

func (n *noSpace) fault(*Commit) error {
	if n.all.Load() {
		return syscall.ENOSPC
	}
	return nil
}

// refuse makes a call fail for want of room, and sees that it left all as it was.
func (n *noSpace) refuse(b *bench, what string, f func() error) {
	b.Helper()
	before := b.standing("q")
	n.all.Store(true)
	if err := f(); !errors.Is(err, queue.ErrStoreFull) {
		b.Errorf("%s: %v", what, err)
	}
	n.all.Store(false)
	b.forgive()
	if after := b.standing("q"); before != after {
		b.Errorf("%s changed\n%s\ninto\n%s", what, before, after)
	}
	b.checkKept(what)
}

// checkKept checks that memory is what is kept.
func (b *bench) checkKept(what string) {
	b.Helper()
	b.read(func(tx Transaction) {
		if err := b.CheckKept(tx, b.now()); err != nil {
			b.Errorf("%s: %v", what, err)
		}
	})
}

// keep makes a commit durable that was collected.
func (b *bench) keep(c *Commit) {
	b.Helper()
	if err := b.write(c); err != nil {
		b.Fatal(err)
	}
	b.Durable(c.Number, b.now())
}

// forgive ends the pause after a commit that found no room.
func (b *bench) forgive() { b.fullUntil = 0 }

func (b *bench) put(name, rate string, change ...func(*queue.Spec)) {
	b.Helper()
	r, err := leaky.ParseRate(rate)
	if err != nil {
		b.Fatal(err)
	}
	s := queue.Spec{Name: name, Rate: r}
	for _, c := range change {
		c(&s)
	}
	if _, err := b.Put(context.Background(), s, queue.AnyRevision); err != nil {
		b.Fatal(err)
	}
}

func jobOf(name string, n int) queue.Job {
	return queue.Job{Queue: name, ID: fmt.Sprintf("job-%06d", n), Payload: fmt.Appendf(nil, `{"n":%d}`, n)}
}

func (b *bench) append(name string, from, n int) {
	b.Helper()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = jobOf(name, from+i)
	}
	answers, err := b.Append(context.Background(), jobs)
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range answers {
		if a.Outcome != queue.Accepted {
			b.Fatalf("append %s: %v, %v", a.ID, a.Outcome, a.Err)
		}
	}
}

func (b *bench) reserve(most int) []queue.Reservation {
	b.Helper()
	b.number++
	r, err := b.Reserve(context.Background(), queue.ReserveRequest{
		Client: queue.Client{ID: "c"}, Number: b.number, Max: most,
	})
	if err != nil {
		b.Fatal(err)
	}
	return r.Jobs
}

func settlements(v queue.Verdict, list []queue.Reservation) []queue.Settlement {
	s := make([]queue.Settlement, len(list))
	for i, r := range list {
		s[i] = queue.Settlement{Lease: queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}, Verdict: v, Reason: "no"}
		if v != queue.Deliver {
			s[i].After = time.Minute
		}
	}
	return s
}

func (b *bench) settleAll(v queue.Verdict, list []queue.Reservation) []queue.Settled {
	b.Helper()
	out, err := b.Settle(context.Background(), settlements(v, list))
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func (b *bench) info(name string) queue.Info {
	b.Helper()
	i, err := b.Get(context.Background(), name)
	if err != nil {
		b.Fatal(err)
	}
	return i
}

func (b *bench) putRule(r queue.Rule) {
	b.Helper()
	if _, err := b.PutRule(context.Background(), r, queue.AnyRevision); err != nil {
		b.Fatal(err)
	}
}

// perHour is a rule that lets through so much under each lane in each hour.
func perHour(name string, limit int64, change ...func(*queue.Rule)) queue.Rule {
	r := queue.Rule{
		Name: name, Algorithm: leaky.AlgorithmFixedWindow, Key: "{lane}",
		Bound: queue.Bound{Limit: limit, Period: queue.Duration(time.Hour)},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func (b *bench) take(rule string, take queue.Take) queue.Taken {
	b.Helper()
	a, err := b.Take(context.Background(), rule, []queue.Take{take})
	if err != nil {
		b.Fatal(err)
	}
	if a[0].Err != nil {
		b.Fatal(a[0].Err)
	}
	return a[0]
}

// left is how much passes under a key.
func (b *bench) left(rule, key string) int64 {
	b.Helper()
	d := b.take(rule, queue.Take{Op: queue.TakePeek, Key: key})
	if !d.Allowed {
		return 0
	}
	return d.Remaining + 1 // without the one that was asked for
}

func (b *bench) come(name, lane string, n int) queue.Appended {
	b.Helper()
	j := jobOf(name, n)
	j.Lane = lane
	a, err := b.Append(context.Background(), []queue.Job{j})
	if err != nil {
		b.Fatal(err)
	}
	return a[0]
}

func first[T any](v T, _ error) T { return v }

func second[T any](_ T, err error) error { return err }

// save keeps all that was taken.
func (b *bench) save() {
	for more := true; more; {
		_ = b.do(context.Background(), func(leaky.Instant) error { _, more = b.SaveTallies(); return nil })
	}
}
