package machine

import (
	"maps"
	"testing"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

const noon = enginetest.Noon

// held is a machine whose commits become durable when the test says so.
type held struct {
	*testing.T
	m      *Machine
	store  *Memory
	number uint64
}

func newHeld(t *testing.T) *held {
	h := &held{T: t, m: New(1), store: NewMemory()}
	s, err := NewSpecText(queue.Spec{Name: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if _, wait, err := h.m.Put(noon, audit.Actor{}, s, 0); err != nil || wait == 0 {
		t.Fatal(wait, err)
	}
	h.commit()
	return h
}

func (h *held) commit() {
	h.Helper()
	c := h.m.Collect(noon)
	if c == nil {
		h.Fatal("there is nothing to keep")
	}
	if err := h.store.Update(func(tx Transaction) error { return c.Write(tx, writeOptions) }); err != nil {
		h.Fatal(err)
	}
	h.m.Durable(c.Number, noon)
}

func (h *held) append(ids ...string) ([]queue.Appended, uint64) {
	jobs := make([]queue.Job, len(ids))
	for i, id := range ids {
		jobs[i] = queue.Job{Queue: "q", ID: id, Payload: []byte("1")}
	}
	a := NewAppending(jobs, false)
	wait, _ := h.m.Append(noon, a)
	return a.Answers, wait
}

func (h *held) reserve() ([]queue.Reservation, uint64) {
	h.Helper()
	return h.reserveUpTo(9)
}

func (h *held) reserveUpTo(n int) ([]queue.Reservation, uint64) {
	h.Helper()
	h.number++
	g, err := h.m.Reserve(noon, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: h.number, Max: n})
	if err != nil {
		h.Fatal(err)
	}
	_ = h.store.View(func(tx Transaction) error { g.Read(tx); return nil })
	h.m.Jobs(noon, g)
	return g.Reserved.Jobs, g.Wait
}

func (h *held) cancel(id string) (queue.State, uint64) {
	h.Helper()
	s, wait, err := h.m.Cancel(noon, audit.Actor{}, "q", id)
	if err != nil {
		h.Fatal(err)
	}
	return s, wait
}

func TestAJobIsSeenAndGrantedWhenItsCommitIsDurable(t *testing.T) {
	h := newHeld(t)
	first, wait := h.append("a", "b", "a")
	if wait == 0 || first[1].Position != 2 || first[2].Outcome != queue.Duplicate || first[2].Position != 1 {
		t.Fatalf("%+v, waits for %d", first, wait)
	}
	if again, later := h.append("b"); again[0].Outcome != queue.Duplicate || later != wait {
		t.Fatalf("%+v waits for %d, not %d", again, later, wait)
	}
	if f, at, err := h.m.FindJob(noon, "q", "a"); f != nil || at != wait || err != nil || h.m.Totals().Waiting != 0 {
		t.Fatalf("a job that may vanish: %+v, waits for %d, not %d, %v, %+v", f, at, wait, err, h.m.Totals())
	}
	if jobs, wait := h.reserve(); len(jobs) != 0 || wait != 0 {
		t.Fatalf("granted %d jobs, waits for %d", len(jobs), wait)
	}
	h.commit()
	jobs, wait := h.reserve()
	if len(jobs) != 2 || jobs[0].ID != "a" || wait != 0 {
		t.Fatalf("granted %+v, waits for %d", jobs, wait)
	}
}

// A replayed job is never unknown: it is dead until its commit is durable, and FindJob is repeated after that commit.
func TestAReplayedJobIsFoundWhenItsCommitIsDurable(t *testing.T) {
	h := newHeld(t)
	h.append("a")
	h.commit()
	jobs, _ := h.reserve()
	h.m.Settle(noon, []queue.Settlement{{
		Lease: queue.Lease{Queue: "q", ID: "a", Fence: jobs[0].Fence}, Verdict: queue.Bury,
	}})
	h.commit()
	r, err := h.m.FindDead(noon, "q", []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	_ = h.store.View(func(tx Transaction) error { r.Read(tx); return nil })
	said, wait, err := h.m.Replay(noon, audit.Actor{}, r)
	if err != nil || wait == 0 || said[0] != queue.Replayed {
		t.Fatalf("%v, waits for %d, %v", said, wait, err)
	}
	if f, at, err := h.m.FindJob(noon, "q", "a"); f != nil || at != wait || err != nil {
		t.Fatalf("%+v, waits for %d, not %d, %v", f, at, wait, err)
	}
	h.commit()
	if f, at, err := h.m.FindJob(noon, "q", "a"); err != nil || at != 0 || f.info.State != queue.Waiting {
		t.Fatalf("%+v, waits for %d, %v", f, at, err)
	}
}

func TestAnEndIsAnsweredWhenItsCommitIsDurable(t *testing.T) {
	h := newHeld(t)
	h.append("a")
	h.commit()
	jobs, _ := h.reserve()
	s := []queue.Settlement{{Lease: queue.Lease{Queue: "q", ID: "a", Fence: jobs[0].Fence}, Verdict: queue.Deliver}}
	done, wait := h.m.Settle(noon, s)
	again, same := h.m.Settle(noon, s)
	if done[0].State != queue.Delivered || again[0].State != queue.Delivered || wait == 0 || same != wait {
		t.Fatalf("%+v waits for %d, and again %+v for %d", done, wait, again, same)
	}
	if twice, same := h.append("a"); twice[0].State != queue.Delivered || same != wait {
		t.Fatalf("%+v waits for %d, not %d", twice, same, wait)
	}
	h.commit()
	if _, wait := h.m.Settle(noon, s); wait != 0 {
		t.Fatalf("what is durable waits for %d", wait)
	}
}

func TestAnArrivingJobCanEndBeforeItsCommitIsDurable(t *testing.T) {
	h := newHeld(t)
	_, came := h.append("a", "b")
	if s, wait := h.cancel("a"); s != queue.Cancelled || wait != came {
		t.Fatalf("%v waits for %d, not %d", s, wait, came)
	}
	c := h.m.Collect(noon) // now in progress
	if s, wait := h.cancel("b"); s != queue.Cancelled || wait != c.Number+1 {
		t.Fatalf("%v waits for %d, not %d", s, wait, c.Number+1)
	}
	h.m.Durable(c.Number, noon)
	if jobs, _ := h.reserve(); len(jobs) != 0 || h.m.Totals().Waiting != 0 {
		t.Fatalf("granted %+v of %+v", jobs, h.m.Totals())
	}
}

func TestAQueueCanBeDeletedWhileJobsArrive(t *testing.T) {
	h := newHeld(t)
	h.append("a", "b")
	c := h.m.Collect(noon)
	if _, err := h.m.Delete(noon, audit.Actor{}, "q", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	h.m.Durable(c.Number, noon)
	if left := h.m.Totals(); left != (queue.Totals{}) {
		t.Fatalf("%+v are left", left)
	}
	if h.m.Sweep(noon) != 0 {
		t.Fatal("records are dropped that come back if the queue's deletion fails")
	}
	h.commit()
	if h.m.Sweep(noon) == 0 {
		t.Fatal("their records are left")
	}
}

func TestARefusalWaitsForNothing(t *testing.T) {
	h := newHeld(t)
	h.append("a")
	a := NewAppending([]queue.Job{{Queue: "none", ID: "x", Payload: []byte("1")}}, false)
	if wait, done := h.m.Append(noon, a); wait != 0 || !done || a.Answers[0].Outcome != queue.UnknownQueue {
		t.Fatalf("%+v waits for %d", a.Answers, wait)
	}
}

func TestAnOrderlyEndKeepsWhatWasTaken(t *testing.T) {
	h := newHeld(t)
	r, err := NewRuleText(rules.Rule{
		Name: "r", Bound: rules.Bound{Rate: leaky.RateOf(1, 3600), Burst: 2}, Algorithm: "token_bucket",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.m.PutRule(noon, audit.Actor{}, r, 0); err != nil {
		t.Fatal(err)
	}
	h.commit()
	left := func(m *Machine, op rules.TakeOp) int64 {
		keys := []queue.LaneDigest{queue.DigestLane("")}
		taken, wait, err := m.Take(noon, "r", []rules.Take{{Op: op, Cost: 1}}, keys, nil)
		if err != nil || wait != 0 {
			t.Fatal(wait, err)
		}
		return taken[0].Remaining
	}
	want := left(h.m, rules.TakeNow)
	c := h.m.CollectLast(noon)
	if err := h.store.Update(func(tx Transaction) error { return c.Write(tx, writeOptions) }); err != nil {
		t.Fatal(err)
	}
	next := New(2)
	if err := h.store.View(func(tx Transaction) error { return next.Load(t.Context(), tx, noon) }); err != nil {
		t.Fatal(err)
	}
	if h.m.Tick(noon) != nil || left(next, rules.TakePeek) != left(h.m, rules.TakePeek) {
		t.Fatalf("%d are left after loading, %d were", left(next, rules.TakePeek), want)
	}
}

// A grant waits for the rate, the pause or the order that it depends on to be durable.
func TestAGrantWaitsForWhatItDependsOn(t *testing.T) {
	spec := func(change func(*queue.Spec)) SpecText {
		s := queue.Spec{Name: "q", Rate: leaky.PerSecond(1)}
		change(&s)
		text, err := NewSpecText(s)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	unlimited := spec(func(s *queue.Spec) { s.Rate = leaky.Unlimited })
	ordered := spec(func(s *queue.Spec) { s.Rate, s.Ordered = leaky.Unlimited, true })
	for what, f := range map[string]func(h *held) error{
		"a rate": func(h *held) error {
			if _, _, err := h.m.Put(noon, audit.Actor{}, spec(func(*queue.Spec) {}), queue.AnyRevision); err != nil {
				return err
			}
			h.commit()
			_, _, err := h.m.Put(noon, audit.Actor{}, unlimited, queue.AnyRevision)
			return err
		},
		"the end of a pause": func(h *held) error {
			if _, err := h.m.Pause(noon, audit.Actor{}, "q", queue.Pause{}); err != nil {
				return err
			}
			h.commit()
			_, err := h.m.Resume(noon, audit.Actor{}, "q")
			return err
		},
		"the return of the job before": func(h *held) error {
			if _, _, err := h.m.Put(noon, audit.Actor{}, ordered, queue.AnyRevision); err != nil {
				return err
			}
			h.commit()
			jobs, _ := h.reserve()
			urgent := NewAppending([]queue.Job{{Queue: "q", ID: "c", Payload: []byte("1"), Priority: 1}}, false)
			h.m.Append(noon, urgent)
			h.commit()
			h.m.Settle(noon, []queue.Settlement{{
				Lease: queue.Lease{Queue: "q", ID: jobs[0].ID, Fence: jobs[0].Fence}, Verdict: queue.Down,
			}})
			return nil
		},
		"the end of the job before": func(h *held) error {
			if _, _, err := h.m.Put(noon, audit.Actor{}, ordered, queue.AnyRevision); err != nil {
				return err
			}
			h.commit()
			jobs, _ := h.reserve()
			h.m.Settle(noon, []queue.Settlement{{
				Lease: queue.Lease{Queue: "q", ID: jobs[0].ID, Fence: jobs[0].Fence}, Verdict: queue.Deliver,
			}})
			return nil
		},
	} {
		h := newHeld(t)
		h.append("a", "b")
		h.commit()
		if err := f(h); err != nil {
			t.Fatal(what, err)
		}
		c := h.m.current.Number
		if jobs, wait := h.reserve(); len(jobs) == 0 || wait != c {
			t.Errorf("%s: %d are granted and wait for %d, not %d", what, len(jobs), wait, c)
		}
	}
}

// In an ordered queue, the end of a job that is not durable concerns only its own lane.
func TestAGrantDoesNotWaitForTheEndsOfOtherLanes(t *testing.T) {
	h := newHeld(t)
	s, err := NewSpecText(queue.Spec{Name: "q", Ordered: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.m.Put(noon, audit.Actor{}, s, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	appendIn := func(lane string, ids ...string) {
		for _, id := range ids {
			j := queue.Job{Queue: "q", ID: id, Lane: lane, Payload: []byte("1")}
			h.m.Append(noon, NewAppending([]queue.Job{j}, false))
		}
		h.commit()
	}
	appendIn("x", "x1", "x2")
	jobs, _ := h.reserve()
	appendIn("y", "y1")
	_, ends := h.m.Settle(noon, []queue.Settlement{{
		Lease: queue.Lease{Queue: "q", ID: "x1", Fence: jobs[0].Fence}, Verdict: queue.Deliver,
	}})
	waits := map[string]uint64{}
	for range 2 {
		jobs, wait := h.reserveUpTo(1)
		waits[jobs[0].ID] = wait
	}
	if want := map[string]uint64{"x2": ends, "y1": 0}; !maps.Equal(waits, want) {
		t.Errorf("grants wait for the commits %v, want %v", waits, want)
	}
}

// Takes by a rule that is not durable take nothing, and are repeated.
func TestATakeWaitsForItsRule(t *testing.T) {
	h := newHeld(t)
	r, err := NewRuleText(rules.Rule{
		Name: "r", Bound: rules.Bound{Rate: leaky.RateOf(1, 60), Burst: 2}, Algorithm: "meter",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, made, err := h.m.PutRule(noon, audit.Actor{}, r, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys := []queue.LaneDigest{queue.DigestLane("")}
	taken, wait, err := h.m.Take(noon, "r", []rules.Take{{Cost: 1}}, keys, nil)
	if taken != nil || wait != made || err != nil {
		t.Errorf("%+v, waits for %d, not %d, %v", taken, wait, made, err)
	}
	if h.m.rules["r"].tallies.len() != 0 {
		t.Error("something is taken")
	}
}
