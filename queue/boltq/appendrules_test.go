package boltq

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/machine"
	"github.com/penstock/penstock/queue/rules"
)

// stuck holds a commit before it is written.
type stuck struct{ *held }

func (s *stuck) fault(tx machine.Transaction) (machine.Transaction, error) {
	if s.on.Load() {
		s.arrived <- struct{}{}
		<-s.release
	}
	return tx, nil
}

// No copy of the file has a job without what it took, or the reverse.
func TestTakesOfAJobAreOnFileWithIt(t *testing.T) {
	c, s := &copies{TB: t, dir: t.TempDir()}, &stuck{held: holding()}
	b := start(t, Options{synced: c.take, fault: s.fault, saveAfter: forever})
	b.MustPutRule(enginetest.PerHour("q.r", 1000))
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Rules, s.Overflow, s.Capacity = []string{"q.r"}, queue.Defer, 30 })
	b.MustPut("other", "unlimited")
	b.AppendInLane("q", "a", 0)
	c.of = b.Engine
	s.on.Store(true)
	first := make(chan error)
	go func() { first <- b.Pause(context.Background(), "other", queue.Pause{}) }()
	<-s.arrived
	var wg sync.WaitGroup
	for n := range 2 { // more of each than fit into one commit, deferred jobs included
		wg.Go(func() {
			jobs := make([]queue.Job, 20)
			for i := range jobs {
				jobs[i] = enginetest.Job("q", 1+n*len(jobs)+i)
				jobs[i].Payload, jobs[i].Lane = make([]byte, 1<<20), "a"
			}
			answers, err := b.Offer(context.Background(), jobs)
			if err != nil {
				t.Error(err)
			}
			for _, a := range answers {
				if a.Outcome != queue.Accepted && a.Outcome != queue.SetAside {
					t.Errorf("%+v", a)
				}
			}
		})
	}
	await.Until(t, "one commit is full, and others wait for the next", func() bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.machine.Ripe()
	})
	s.on.Store(false)
	s.release <- struct{}{}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if c.n.Load() < 3 {
		t.Fatalf("%d commits", c.n.Load())
	}
	for i := int64(1); i <= c.n.Load(); i++ {
		other := &bench{Caller: enginetest.New(t), opts: Options{Now: b.Now}}
		other.open(c.path(i))
		info := other.MustGet("q")
		if taken := 1000 - other.Left("q.r", "a"); taken != info.Waiting+info.Deferred {
			t.Errorf("copy %d: %d jobs, %d taken", i, info.Waiting+info.Deferred, taken)
		}
	}
}

// While a rule changes, takes and appends use its new version and wait until that is durable: no answer depends on a
// change that might vanish.
func TestARuleThatChangesDuringAppends(t *testing.T) {
	s := &stuck{held: holding()}
	b := start(t, Options{fault: s.fault})
	b.MustPutRule(enginetest.PerHour("q.r", 1))
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r"} })
	limits := map[string]int64{"reset": 1, "raised": 2}
	for name, change := range map[string]func() error{
		"reset": func() error { return b.ResetRule(context.Background(), "q.r") },
		"raised": func() error {
			return second(b.PutRule(context.Background(), enginetest.PerHour("q.r", 2), queue.AnyRevision))
		},
	} {
		b.MustPutRule(enginetest.PerHour("q.r", 1)) // whichever change came first
		if a := b.AppendInLane("q", name, 1); a.Outcome != queue.Accepted {
			t.Fatalf("%+v", a)
		}
		s.on.Store(true)
		done := make(chan error)
		go func() { done <- change() }()
		<-s.arrived
		answer, peeked := make(chan queue.Appended), make(chan leaky.Decision, 1)
		go func() { peeked <- b.Peek("q.r", name) }()
		select {
		case d := <-peeked:
			t.Errorf("%s: %+v before it is on disk", name, d)
		case <-time.After(20 * time.Millisecond):
		}
		go func() { answer <- b.AppendInLane("q", name, 2) }()
		s.on.Store(false)
		s.release <- struct{}{}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		// by the rule as it is now, before or after the append
		if d, a := <-peeked, <-answer; d.Limit != limits[name] || a.Outcome != queue.Accepted {
			t.Errorf("%s: %+v, %+v", name, d, a)
		}
		if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err != nil {
			t.Fatal(err)
		}
		b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r"} })
	}
}

// Takes that could not be saved for lack of room are saved when there is some.
func TestTakesWhileTheFileIsFull(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault, saveAfter: time.Millisecond})
	b.MustPutRule(enginetest.PerHour("r", 5))
	n.all.Store(true)
	b.MustTake("r", rules.Take{Key: "a"})
	await.Until(t, "a commit found no room", func() bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.outOfSpace(b.fileSpace(time.Now()), time.Now())
	})
	n.all.Store(false)
	await.Until(t, "it is on file", func() bool { return b.records(talliesTable) == 1 })
	b.reopen()
	if left := b.Left("r", "a"); left != 4 {
		t.Errorf("%d left", left)
	}
}

// A parent's rules apply to its children at once, and so do changed rules.
func TestRulesReachChildrenAtOnce(t *testing.T) {
	b := start(t, Options{})
	b.MustPutRule(enginetest.PerHour("q.r", 1))
	b.MustPutRule(enginetest.PerHour("q.own", 100))
	b.MustPut("q", "unlimited")
	b.MustPut("q.child", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.own"} })
	outcome := func(n int, want queue.AppendOutcome, asked int) {
		t.Helper()
		if a := b.AppendInLane("q.child", "a", n); a.Outcome != want || len(a.Rules) != asked {
			t.Errorf("%+v", a)
		}
	}
	outcome(0, queue.Accepted, 1)
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r", "q.own"} })
	outcome(1, queue.Accepted, 2)
	outcome(2, queue.LimitReached, 2)
	b.MustPutRule(enginetest.PerHour("q.r", 2))
	outcome(2, queue.Accepted, 2)
	outcome(3, queue.LimitReached, 2)
	if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err == nil {
		t.Error("a parent was deleted")
	}
	b.reopen()
	outcome(3, queue.LimitReached, 2)
	b.MustPut("q", "unlimited")
	outcome(3, queue.Accepted, 1)
}

// A rollback to a spec that names a deleted rule fails.
func TestARollbackToADeletedRule(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.MustPutRule(enginetest.PerHour("q.r", 1))
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r"} })
	b.MustPut("q", "unlimited")
	if err := b.DeleteRule(ctx, "q.r", queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	_, err := b.Rollback(ctx, "q", 0, queue.AnyRevision)
	var at *invalid.Error
	if !errors.As(err, &at) || at.Field != "rules.0" {
		t.Errorf("%v", err)
	}
}
