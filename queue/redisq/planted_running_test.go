package redisq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/unit"
)

// A key that is planted while the server runs is told by the calls that meet it, which change nothing. The others go
// on, and when it is put right every job is delivered once, and the totals add up.
func TestPlantedWhileTheServerRuns(t *testing.T) {
	for _, tt := range []struct {
		key, as                  string // as a type, or any other than its own
		append, reserve, deliver bool   // whether the call meets it
	}{
		{key: "w1", append: true, reserve: true},
		{key: "t1", reserve: true},
		{key: "f1", reserve: true, deliver: true},
		{key: "e1", deliver: true},
		{key: "r1"},
		{key: "q1", append: true, reserve: true, deliver: true},
		{key: "a", append: true, reserve: true, deliver: true},
		{key: "s", append: true, reserve: true, deliver: true},
		{key: "l", append: true, reserve: true, deliver: true},
		{key: "a", as: "set", reserve: true},
		{key: "s", as: "set", reserve: true},
		{key: "l", as: "set", reserve: true, deliver: true},
	} {
		t.Run(tt.key+tt.as, func(t *testing.T) {
			s := redistest.New(t, redistest.Options{})
			at := leaky.Instant(1_700_000_000_000_000)
			v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
			v.put("email", leaky.PerSecond(10), func(s *queue.Spec) { s.Lease = unit.Duration(5 * time.Second) })
			accepted, delivered, held := 6, map[string]int{}, []queue.Reservation(nil)
			for i := range accepted {
				v.append(job("email", i))
			}
			deliverAll := func() (told error) {
				out, err := v.e.Settle(v.ctx, deliver(held...))
				if err != nil {
					return err
				}
				asked := held
				held = nil
				for i, o := range out {
					if o.Err != nil {
						told, held = o.Err, append(held, asked[i])
					} else if !o.Stale {
						delivered[asked[i].ID]++
					}
				}
				return told
			}
			held = v.reserve("email").Jobs
			var undo func()
			if tt.as == "" {
				undo = plant(t, s, "ps{0}"+tt.key)
			} else {
				undo = plantAs(t, s, "ps{0}"+tt.key, tt.as)
			}
			for range 8 { // leases run out
				at += 1_000_000
				a, err := v.e.Append(v.ctx, []queue.Job{job("email", accepted)})
				if err == nil {
					err = a[0].Err
				}
				switch {
				case errors.Is(err, queue.ErrCorrupt) != tt.append:
					t.Fatalf("append: %+v, %v", a, err)
				case err == nil:
					accepted++
				}
				told := deliverAll()
				if met := tt.deliver && len(held) > 0; errors.Is(told, queue.ErrCorrupt) != met || told == nil == met {
					t.Fatalf("deliver: %v", told)
				}
				r, err := v.e.Reserve(v.ctx, v.request("email"))
				if granted := len(r.Jobs) > 0; granted && tt.reserve || !granted && !tt.reserve && len(held) < accepted {
					t.Fatalf("granted %+v, %v", r.Jobs, err)
				}
				held = append(held, r.Jobs...)
			}
			undo()
			if accepted == 6 {
				v.append(job("email", accepted))
				accepted++
			}
			for range 300 {
				if err := deliverAll(); err != nil {
					t.Fatalf("put right: %v", err)
				}
				at += 100_000
				held = v.reserve("email").Jobs
			}
			for id, times := range delivered {
				if times != 1 {
					t.Errorf("%s was delivered %d times", id, times)
				}
			}
			if len(delivered) != accepted {
				t.Errorf("delivered %d of %d", len(delivered), accepted)
			}
			got, err := v.e.Totals(v.ctx)
			if want := (queue.Totals{Queues: 1}); err != nil || got != want {
				t.Errorf("totals %+v, %v; want %+v", got, err, want)
			}
			if i := v.info("email"); i.Size() != 0 || i.Bytes != 0 || int(i.Delivered) != accepted {
				t.Errorf("size %d, bytes %d, delivered %d; want 0, 0 and %d", i.Size(), i.Bytes, i.Delivered, accepted)
			}
		})
	}
}

// The keys of what expires are written behind those of what waits: an append that would meet one that was planted while
// the server runs lets nobody in.
func TestPlantedExpiriesWhileTheServerRuns(t *testing.T) {
	for _, key := range []string{"T1", "T"} {
		t.Run(key, func(t *testing.T) {
			s := redistest.New(t, redistest.Options{})
			at := leaky.Instant(1_700_000_000_000_000)
			v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
			v.put("email", leaky.Unlimited, nil)
			v.append(job("email", 0))
			if n := len(v.reserve("email").Jobs); n != 1 {
				t.Fatalf("granted %d", n)
			}
			expiring := func(i int) queue.Job {
				j := job("email", i)
				j.ExpiresAt = at.Time().Add(time.Hour)
				return j
			}
			v.append(expiring(1))
			undo := plant(t, s, "ps{0}"+key)
			before := contents(t, s.Client())
			a, err := v.e.Append(v.ctx, []queue.Job{expiring(2), job("email", 3)})
			if err == nil {
				err = a[0].Err
			}
			if !errors.Is(err, queue.ErrCorrupt) {
				t.Errorf("append: %+v, %v", a, err)
			}
			after := contents(t, s.Client())
			for k := range after {
				if k != "ps{0}" && after[k] != before[k] || len(after) != len(before) {
					t.Errorf("changed %s from %q to %q, %d keys to %d", k, before[k], after[k], len(before), len(after))
				}
			}
			undo()
			if a := v.append(expiring(2), job("email", 3)); a[0].Outcome != queue.Accepted || a[1].Outcome != queue.Accepted {
				t.Errorf("put right: %+v", a)
			}
			got, err := v.e.Totals(v.ctx)
			if want := (queue.Totals{Queues: 1, Waiting: 3, Leased: 1}); err != nil || got != want {
				t.Errorf("totals %+v, %v; want %+v", got, err, want)
			}
			if i := v.info("email"); i.Size() != 4 {
				t.Errorf("size %d, want 4", i.Size())
			}
		})
	}
}

// A plain set passes for a sorted one where only sets are compared. A call that would write it changes nothing, and is
// told.
func TestPlantedSetChangesNothing(t *testing.T) {
	first := func(a []queue.Appended, err error) error {
		if err == nil {
			err = a[0].Err
		}
		return err
	}
	for name, tt := range map[string]struct {
		key string
		do  func(v *env, at leaky.Instant, held []queue.Reservation) error
	}{
		"a, an append to an empty queue": {"a", func(v *env, at leaky.Instant, _ []queue.Reservation) error {
			return first(v.e.Append(v.ctx, []queue.Job{job("email", 5)}))
		}},
		"a, a job of a lane": {"a", func(v *env, at leaky.Instant, _ []queue.Reservation) error {
			j := job("email", 5)
			j.Lane = "tenant"
			return first(v.e.Append(v.ctx, []queue.Job{j}))
		}},
		"s, a job for later": {"s", func(v *env, at leaky.Instant, _ []queue.Reservation) error {
			j := job("email", 5)
			j.NotBefore = at.Time().Add(time.Hour)
			return first(v.e.Append(v.ctx, []queue.Job{j}))
		}},
		"s, a retry": {"s", func(v *env, at leaky.Instant, held []queue.Reservation) error {
			out, err := v.e.Settle(v.ctx, retried(held[0]))
			if err == nil {
				err = out[0].Err
			}
			return err
		}},
		"a, a pause": {"a", pauseIt}, "s, a pause": {"s", pauseIt},
		"a, a spec": {"a", changeIt}, "s, a spec": {"s", changeIt},
		"a, a deletion": {"a", deleteIt}, "s, a deletion": {"s", deleteIt},
		"l, a delivery": {"l", func(v *env, _ leaky.Instant, held []queue.Reservation) error {
			s := retried(held[0])
			s[0].Verdict, s[0].After = queue.Deliver, 0
			out, err := v.e.Settle(v.ctx, s)
			if err == nil {
				err = out[0].Err
			}
			return err
		}},
		"l, a retry": {"l", func(v *env, at leaky.Instant, held []queue.Reservation) error {
			out, err := v.e.Settle(v.ctx, retried(held[0]))
			if err == nil {
				err = out[0].Err
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v, s, at := manual(t)
			v.put("email", leaky.Unlimited, nil)
			v.append(job("email", 1))
			held := v.reserve("email").Jobs
			undo := plantAs(t, s, "ps{0}"+tt.key, "set")
			before := contents(t, s.Client())
			if err := tt.do(v, *at, held); !errors.Is(err, queue.ErrCorrupt) {
				t.Errorf("told %v", err)
			}
			after := contents(t, s.Client())
			for k := range after {
				if k != "ps{0}" && after[k] != before[k] || len(after) != len(before) {
					t.Errorf("changed %s from %q to %q, %d keys to %d", k, before[k], after[k], len(before), len(after))
				}
			}
			undo()
			if err := tt.do(v, *at, held); err != nil {
				t.Errorf("put right: %v", err)
			}
		})
	}
}

func pauseIt(v *env, at leaky.Instant, _ []queue.Reservation) error {
	return v.e.Pause(v.ctx, "email", queue.Pause{Until: at.Time().Add(time.Hour)})
}

func changeIt(v *env, _ leaky.Instant, _ []queue.Reservation) error {
	_, err := v.e.Put(v.ctx, queue.Spec{Name: "email", Rate: leaky.PerSecond(1)}, queue.AnyRevision)
	return err
}

func deleteIt(v *env, _ leaky.Instant, _ []queue.Reservation) error {
	return v.e.Delete(v.ctx, "email", queue.AnyRevision, true)
}

func retried(r queue.Reservation) []queue.Settlement {
	return []queue.Settlement{{
		Lease: queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}, Verdict: queue.Fail, After: time.Minute,
	}}
}

// An instant before which nothing is due, planted far ahead, hides no lease that ran out, no timer and no chore.
func TestPlantedFirstInstantsHeal(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, func(s *queue.Spec) { s.Lease = unit.Duration(5 * time.Second) })
	later := job("email", 2)
	later.NotBefore = at.Time().Add(10 * time.Second)
	v.append(job("email", 1), later)
	if n := len(v.reserve("email").Jobs); n != 1 {
		t.Fatalf("granted %d", n)
	}
	const far int64 = 9_000_000_000_000_000
	for _, first := range []string{"firstLease", "firstTimer", "firstChore"} {
		plantValue(t, s, "ps{0}", first, far)
	}
	seen := map[string]bool{}
	for range 30 {
		*at += 1_000_000
		for _, j := range v.reserve("email").Jobs {
			seen[j.ID] = true
		}
	}
	if !seen["job-0001"] || !seen["job-0002"] {
		t.Errorf("came out: %v", seen)
	}
	if chore := keptNumber(t, s, "ps{0}", "firstChore"); chore > int64(*at)+3_000_000 {
		t.Errorf("the next chore is at %d, now is %d", chore, *at)
	}
}
