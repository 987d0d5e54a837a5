package boltq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// stuck holds a commit before it is written, and then fails it.
type stuck struct {
	*held
	fails bool
}

func (s *stuck) fault([]change) error {
	if s.on.Load() {
		s.arrived <- struct{}{}
		<-s.release
		if s.fails {
			return syscall.ENOSPC
		}
	}
	return nil
}

// Where a commit fails what it took is as if it had not been asked for, whatever was taken meanwhile, by whom, and
// however much time has passed.
func TestWhatAFailedCommitTook(t *testing.T) {
	later := 61 * time.Minute // another window
	for _, r := range oneOfEach() {
		if r.Algorithm == leaky.AlgorithmConcurrency {
			continue
		}
		for _, passes := range []time.Duration{time.Second, 20 * time.Minute, later} {
			t.Run(fmt.Sprint(r.Algorithm, passes), func(t *testing.T) {
				s := &stuck{held: holding(), fails: true}
				with, without := start(t, Options{
					fault: s.fault, saveAfter: forever,
				}), start(t, Options{saveAfter: forever})
				for _, b := range []*bench{with, without} {
					b.putRule(r)
					b.put("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{r.Name} })
					b.take(r.Name, queue.Take{})
					b.advance(10 * time.Minute)
				}
				s.on.Store(true)
				answer := make(chan error)
				go func() { answer <- second(with.Append(context.Background(), []queue.Job{jobOf("q", 1)})) }()
				<-s.arrived
				for _, b := range []*bench{with, without} {
					b.advance(passes)
					b.take(r.Name, queue.Take{})
					b.advance(time.Second)
					b.take(r.Name, queue.Take{Op: queue.TakeBack})
					b.take(r.Name, queue.Take{})
				}
				s.on.Store(false)
				s.release <- struct{}{}
				if err := <-answer; !errors.Is(err, queue.ErrStoreFull) {
					t.Fatal(err)
				}
				if got, want := with.taken(r.Name, ""), without.taken(r.Name, ""); got != want {
					t.Errorf("%s, and without the append %s", got, want)
				}
				with.forgive()
				if got, want := with.peek(r.Name, ""), without.peek(r.Name, ""); got != want {
					t.Errorf("%+v, and without the append %+v", got, want)
				}
				with.Engine.mu.Lock()
				if tally := with.rules[r.Name].tallies.find(queue.LaneDigest{}); tally.pendingWrite() {
					t.Errorf("it still waits for %d", len(tally.unpacked.ops))
				}
				with.Engine.mu.Unlock()
			})
		}
	}
}

// In no copy of the file is a job without what it took, nor that without the job.
func TestWhatAJobTookIsOnFileWithIt(t *testing.T) {
	c, s := &copies{TB: t, dir: t.TempDir()}, &stuck{held: holding()}
	b := start(t, Options{synced: c.take, fault: s.fault, saveAfter: forever})
	b.putRule(perHour("q.r", 1000))
	b.put("q", "unlimited", func(s *queue.Spec) { s.Rules, s.Overflow, s.Capacity = []string{"q.r"}, queue.Defer, 30 })
	b.put("other", "unlimited")
	b.come("q", "a", 0)
	c.of = b.Engine
	s.on.Store(true)
	first := make(chan error)
	go func() { first <- b.Pause(context.Background(), "other", queue.Pause{}) }()
	<-s.arrived
	var wg sync.WaitGroup
	for n := range 2 { // of each more than goes into one commit; those that are set aside too
		wg.Go(func() {
			jobs := make([]queue.Job, 20)
			for i := range jobs {
				jobs[i] = jobOf("q", 1+n*len(jobs)+i)
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
	await.Until(t, "all are pending", func() bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return len(b.pending) == 40
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
		other := &bench{TB: t, at: b.at, opts: Options{Now: b.clock}}
		other.open(c.path(i))
		info := other.info("q")
		if taken := 1000 - other.left("q.r", "a"); taken != info.Waiting+info.Deferred {
			t.Errorf("copy %d: %d jobs, %d taken", i, info.Waiting+info.Deferred, taken)
		}
	}
}

// While a rule changes takes go by it as it was, and appends wait: what a change finds taken is on disk.
func TestARuleThatChangesBesideAppends(t *testing.T) {
	s := &stuck{held: holding()}
	b := start(t, Options{fault: s.fault})
	b.putRule(perHour("q.r", 1))
	b.put("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r"} })
	for name, change := range map[string]func() error{
		"reset":  func() error { return b.ResetRule(context.Background(), "q.r") },
		"raised": func() error { return second(b.PutRule(context.Background(), perHour("q.r", 2), queue.AnyRevision)) },
	} {
		b.putRule(perHour("q.r", 1)) // whichever change came first
		if a := b.come("q", name, 1); a.Outcome != queue.Accepted {
			t.Fatalf("%+v", a)
		}
		s.on.Store(true)
		done := make(chan error)
		go func() { done <- change() }()
		<-s.arrived
		if d := b.peek("q.r", name); d.Allowed { // by the old one
			t.Errorf("%s: %+v", name, d)
		}
		answer := make(chan queue.Appended)
		go func() { answer <- b.come("q", name, 2) }()
		s.on.Store(false)
		s.release <- struct{}{}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if a := <-answer; a.Outcome != queue.Accepted {
			t.Errorf("%s: %+v", name, a)
		}
		if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err != nil {
			t.Fatal(err)
		}
		b.put("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r"} })
	}
}

func TestEveryChangeOfARuleCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault, saveAfter: forever})
	ctx := context.Background()
	b.putRule(perHour("q.r", 3))
	b.putRule(perHour("q.idle", 3))
	b.put("q", "unlimited", func(s *queue.Spec) { s.Rules, s.Overflow, s.Capacity = []string{"q.r"}, queue.Defer, 2 })
	b.come("q", "a", 0)
	b.take("q.idle", queue.Take{Key: "a"})
	rules := func() string {
		list, err := b.ListRules(ctx, "", 10)
		return fmt.Sprint(list, err, b.taken("q.r", "a"), b.taken("q.idle", "a"))
	}
	var failed string
	fails := func(what string, f func() error) {
		t.Helper()
		before := rules()
		n.refuse(b, what, f)
		if after := rules(); before != after {
			failed = after
			t.Errorf("%s changed\n%s\ninto\n%s", what, before, failed)
		}
	}
	fails("put", func() error { return second(b.PutRule(ctx, perHour("q.r", 5), queue.AnyRevision)) })
	fails("create", func() error { return second(b.PutRule(ctx, perHour("q.new", 5), queue.AnyRevision)) })
	fails("reset", func() error { return b.ResetRule(ctx, "q.r") })
	fails("delete", func() error { return b.DeleteRule(ctx, "q.idle", queue.AnyRevision) })
	lane := func(i int) queue.Job { j := jobOf("q", i); j.Lane = "a"; return j }
	fails("append", func() error { return second(b.Append(ctx, []queue.Job{lane(1)})) })
	b.come("q", "b", 3)
	fails("offer", func() error { return second(b.Offer(ctx, []queue.Job{lane(4)})) })
	// A Put that names a rule, or no longer does, leaves it as it was named.
	fails("name", func() error {
		return second(b.Put(ctx, queue.Spec{Name: "q", Rules: []string{"q.idle"}}, queue.AnyRevision))
	})
	if err := b.DeleteRule(ctx, "q.r", queue.AnyRevision); !errors.Is(err, queue.ErrRuleInUse) {
		t.Error(err)
	}
	fails("a queue that names it", func() error {
		return second(b.Put(ctx, queue.Spec{Name: "q.child", Rules: []string{"q.idle"}}, queue.AnyRevision))
	})
	if err := b.DeleteRule(ctx, "q.idle", queue.AnyRevision); err != nil {
		t.Error(err)
	}
	if _, err := b.Rule(ctx, "q.new"); !errors.Is(err, queue.ErrUnknownRule) {
		t.Errorf("a rule that was not made: %v", err)
	}
	b.putRule(perHour("q.new", 1))
	b.reopen()
	if left := b.left("q.r", "a"); left != 2 {
		t.Errorf("%d left", left)
	}
}

// What could not be saved for want of room is saved when there is some.
func TestTakesWhileTheFileIsFull(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault, saveAfter: time.Millisecond})
	b.putRule(perHour("r", 5))
	n.all.Store(true)
	b.take("r", queue.Take{Key: "a"})
	await.Until(t, "a commit found no room", func() bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.outOfSpace(b.space())
	})
	n.all.Store(false)
	await.Until(t, "it is on file", func() bool { return b.records(talliesTable) == 1 })
	b.reopen()
	if left := b.left("r", "a"); left != 4 {
		t.Errorf("%d left", left)
	}
}

// A parent's rules hold for its children at once, and so do those of a rule that changes.
func TestRulesReachChildrenAtOnce(t *testing.T) {
	b := start(t, Options{})
	b.putRule(perHour("q.r", 1))
	b.putRule(perHour("q.own", 100))
	b.put("q", "unlimited")
	b.put("q.child", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.own"} })
	outcome := func(n int, want queue.AppendOutcome, rules int) {
		t.Helper()
		if a := b.come("q.child", "a", n); a.Outcome != want || len(a.Rules) != rules {
			t.Errorf("%+v", a)
		}
	}
	outcome(0, queue.Accepted, 1)
	b.put("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r", "q.own"} })
	outcome(1, queue.Accepted, 2)
	outcome(2, queue.LimitReached, 2)
	b.putRule(perHour("q.r", 2))
	outcome(2, queue.Accepted, 2)
	outcome(3, queue.LimitReached, 2)
	if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err == nil {
		t.Error("a parent was deleted")
	}
	b.reopen()
	outcome(3, queue.LimitReached, 2)
	b.put("q", "unlimited")
	outcome(3, queue.Accepted, 1)
}

// A spec that names a rule which is gone cannot be put again.
func TestARollbackToARuleThatIsGone(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.putRule(perHour("q.r", 1))
	b.put("q", "unlimited", func(s *queue.Spec) { s.Rules = []string{"q.r"} })
	b.put("q", "unlimited")
	if err := b.DeleteRule(ctx, "q.r", queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	_, err := b.Rollback(ctx, "q", 0, queue.AnyRevision)
	var at *queue.FieldError
	if !errors.As(err, &at) || at.Field != "rules.0" {
		t.Errorf("%v", err)
	}
}
