package redisq_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/unit"
)

// overflowCall is a call of queue.Overflow.
type overflowCall struct {
	name string
	do   func() error
}

// overflowCalls is each of them, about one job. They can be done in this order.
func overflowCalls(v *env, kept queue.Readmission) []overflowCall {
	return []overflowCall{
		{"offer", func() error { _, err := v.e.Offer(v.ctx, []queue.Job{kept.Job}); return err }},
		{"announce", func() error { return v.e.Announce(v.ctx, "email") }},
		{"backlogged", func() error { _, err := v.e.Backlogged(v.ctx, 10); return err }},
		{"cancel", func() error { _, err := v.e.Cancel(v.ctx, "email", kept.ID); return err }},
		{"withdraw", func() error {
			_, err := v.e.Withdraw(v.ctx, []queue.Ticketed{{Queue: "email", ID: kept.ID, Ticket: kept.Ticket}})
			return err
		}},
		{"readmit", func() error { _, err := v.e.Readmit(v.ctx, request("email", kept)); return err }},
	}
}

func TestOverflowOfFlushedStore(t *testing.T) {
	v, s, kept := overflowing(t, 3)
	if err := s.Client().FlushAll(v.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range overflowCalls(v, kept[0]) {
		if err := c.do(); !errors.Is(err, queue.ErrNoStore) {
			t.Errorf("%s: %v, want no store", c.name, err)
		}
	}
	if keys, _ := s.Client().Keys(v.ctx, "*").Result(); len(keys) > 0 {
		t.Errorf("written to a flushed server: %v", keys)
	}
}

func TestOverflowWithScriptsFlushed(t *testing.T) {
	v, s, kept := overflowing(t, 3)
	for _, c := range overflowCalls(v, kept[0]) {
		if err := s.Client().ScriptFlush(v.ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Out of memory nothing comes back, and all of it stays where it is; what frees
// goes on.
func TestOverflowOutOfMemory(t *testing.T) {
	s := redistest.New(t, redistest.Options{MaxMemory: "8mb"})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	v.put("email", leaky.Unlimited, enginetest.Deferring(2))
	v.append(job("email", 1), job("email", 2))
	kept := v.setAside("email", 3, 4, 5, 6)
	v.drain("email", 2)
	for came, n := 1, 0; came > 0; n++ { // each queue leaves some of what was free
		filler := fmt.Sprint("filler", n)
		v.put(filler, leaky.Unlimited, func(s *queue.Spec) { s.Capacity, s.MaxBytes = 1_000_000, queue.MostMaxBytes })
		for came = 0; ; came++ {
			j := job(filler, came)
			j.Payload = make([]byte, 10_000)
			if _, err := v.e.Append(v.ctx, []queue.Job{j}); err != nil {
				break
			}
		}
	}

	// A queue that takes little may still take what the fillers left, and the buffers of idle clients shrink after 2 s.
	// So there is less memory from here on, and the partition looks at it once a second.
	if err := s.Client().ConfigSet(v.ctx, "maxmemory", "7900kb").Err(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond)

	before := v.info("email")
	if r, err := v.e.Readmit(v.ctx, request("email", kept...)); !errors.Is(err, queue.ErrStoreFull) {
		t.Errorf("readmit: %+v, %v; want store full", r, err)
	}
	if a, err := v.e.Offer(v.ctx, []queue.Job{job("email", 7)}); !errors.Is(err, queue.ErrStoreFull) {
		t.Errorf("offer: %+v, %v; want store full", a, err)
	}
	if err := v.e.Announce(v.ctx, "email"); err != nil {
		t.Errorf("announce: %v", err)
	}
	if after := v.info("email"); after.Deferred != 4 || after.Waiting != 0 || after.Returned != before.Returned ||
		after.SetAside != before.SetAside {
		t.Errorf("%+v, before %+v", after, before)
	}
	if _, err := v.e.Withdraw(v.ctx, []queue.Ticketed{{
		Queue: "email", ID: kept[3].ID,
		Ticket: kept[3].Ticket,
	}}); err != nil {
		t.Errorf("withdraw: %v", err)
	}
	if state, err := v.e.Cancel(v.ctx, "email", kept[2].ID); err != nil || state != queue.Cancelled {
		t.Errorf("cancel: %v, %v", state, err)
	}
	// 1.5 MB: what is used must fall below nine tenths, wherever between it was. The scripts that came since then take
	// some of it.
	for i := range 150 {
		if state, err := v.e.Cancel(v.ctx, "filler0", job("filler0", i).ID); err != nil || state != queue.Cancelled {
			t.Fatalf("cancel: %v, %v", state, err)
		}
	}

	var r queue.Readmitted
	await.Until(t, "the partition has looked again how much memory there is", func() bool {
		var err error
		r, err = v.e.Readmit(v.ctx, request("email", kept[0]))
		if err != nil && !errors.Is(err, queue.ErrStoreFull) {
			t.Fatal(err)
		}
		return err == nil
	})
	if r.Outcomes[0] != readmit.Returned || r.Deferred != 1 {
		t.Errorf("with memory free again: %+v", r)
	}
}

// While a key of its queue or its partition is not ours, what cannot be done
// whole is not done by halves (invariant 10). Put right, all goes on from where
// it was.
func TestPlantedUnderTheOverflow(t *testing.T) {
	for _, key := range []string{"q1", "w1", "t1", "f1", "e1", "d:email", "r1", "a", "o", "y"} {
		t.Run(key, func(t *testing.T) {
			v, s, kept := overflowing(t, 3, 4, 5)
			v.drain("email", 2)
			v.append(queue.Job{Queue: "email", ID: "waits"})
			undo := plant(t, s, "ps{0}"+key)
			for _, c := range []struct {
				name   string
				call   func() error
				spared string // keys that it does not need
			}{
				{"readmit", func() error { _, err := v.e.Readmit(v.ctx, request("email", kept...)); return err }, ""},
				{"offer", func() error {
					a, err := v.e.Offer(v.ctx, []queue.Job{job("email", 6)})
					return errors.Join(err, a[0].Err)
				}, "y d:email"},
				{
					"cancel what waits", func() error { _, err := v.e.Cancel(v.ctx, "email", "waits"); return err },
					"y d:email",
				},
				{"cancel what is deferred", func() error {
					_,
						err := v.e.Cancel(v.ctx, "email", "job-0004")
					return err
				}, "y d:email"},
				{"announce", func() error { return v.e.Announce(v.ctx, "email") }, "y w1 t1 f1 e1 d:email r1"},
				{"withdraw", func() error {
					_, err := v.e.Withdraw(v.ctx, []queue.Ticketed{{
						Queue: "email", ID: "job-0005",
						Ticket: kept[2].Ticket,
					}})
					return err
				}, "y w1 t1 f1 e1 d:email r1"},
			} {
				before := contents(t, s.Client())
				err := c.call()
				if spared := slices.Contains(strings.Fields(c.spared), key); spared != (err == nil) ||
					err != nil && !errors.Is(err, queue.ErrCorrupt) {
					t.Errorf("%s: %v; want corrupt unless it is spared: %v", c.name, err, spared)
				}
				after := contents(t, s.Client())
				for k := range after {
					if err != nil && (after[k] != before[k] || len(after) != len(before)) {
						t.Errorf("%s failed, and changed %s from %q to %q, %d keys to %d", c.name, k, before[k],
							after[k], len(before), len(after))
					}
				}
			}
			undo()
			if r := v.readmit("email", kept[0]); r.Outcomes[0] != readmit.Returned || r.Order != kept[0].Order {
				t.Errorf("put right: %+v", r)
			}
			if seen := v.drain("email", int(v.info("email").Waiting)); seen["job-0003"] != 1 {
				t.Errorf("came out: %v", seen)
			}
		})
	}
}

// contents is all that a server holds, but for the clock.
func contents(t *testing.T, c *redis.Client) map[string]string {
	t.Helper()
	all := map[string]string{}
	ctx := t.Context()
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		switch c.Type(ctx, key).Val() {
		case "hash":
			fields := c.HGetAll(ctx, key).Val()
			delete(fields, "clock")
			all[key] = fmt.Sprint(fields)
		case "zset":
			all[key] = fmt.Sprint(c.ZRangeWithScores(ctx, key, 0, -1).Val())
		case "list":
			all[key] = fmt.Sprint(c.LRange(ctx, key, 0, -1).Val())
		default:
			all[key] = c.Get(ctx, key).Val()
		}
	}
	return all
}

// The key of one deferred job is not ours: nothing is done about that job, and
// the others go on once its caller has kept it elsewhere.
func TestPlantedDeferredJob(t *testing.T) {
	for _, kind := range []string{"another type", "another text", "a record cut short"} {
		t.Run(kind, func(t *testing.T) {
			v, s, kept := overflowing(t, 3, 4)
			v.drain("email", 2)
			c, key := s.Client(), "ps{0}j1:job-0003"
			whole := c.Get(v.ctx, key).Val()
			switch kind {
			case "another type":
				plant(t, s, key)
			case "another text":
				c.Set(v.ctx, key, strings.Repeat("planted", 9), 0)
			default:
				c.Set(v.ctx, key, whole[:30], 0)
			}
			planted := c.Dump(v.ctx, key).Val()

			for what, a := range map[string]queue.Appended{
				"append": v.append(job("email", 3))[0],
				"offer":  v.offer(job("email", 3))[0],
			} {
				if a.Outcome != queue.Failed || !errors.Is(a.Err, queue.ErrCorrupt) {
					t.Errorf("%s: %+v", what, a)
				}
			}
			if _, err := v.e.Job(v.ctx, "email", "job-0003"); !errors.Is(err, queue.ErrCorrupt) {
				t.Errorf("job: %v", err)
			}
			if _, err := v.e.Cancel(v.ctx, "email", "job-0003"); !errors.Is(err, queue.ErrCorrupt) {
				t.Errorf("cancel: %v", err)
			}
			if _, err := v.e.Withdraw(v.ctx, []queue.Ticketed{{
				Queue: "email", ID: "job-0003",
				Ticket: kept[0].Ticket,
			}}); err != nil {
				t.Errorf("withdraw: %v", err)
			}
			if r := v.readmit("email", kept...); r.Outcomes[0] != readmit.Unreadable || r.Outcomes[1] != readmit.NotYet ||
				r.Order != 0 || r.Deferred != 2 {
				t.Errorf("readmit: %+v", r)
			}
			kept[0].Done = true
			if r := v.readmit("email", kept...); r.Outcomes[0] != readmit.Passed || r.Outcomes[1] != readmit.Returned ||
				r.Order != 4 {
				t.Errorf("readmit, kept elsewhere: %+v", r)
			}
			if c.Dump(v.ctx, key).Val() != planted {
				t.Error("what is not ours was changed")
			}
			if seen := v.drain("email", 1); seen["job-0004"] != 1 {
				t.Errorf("came out: %v", seen)
			}
			// Its record is gone, so its place among the deferred is only found when the overflow is empty.
			if names := v.backlogged(); len(names) != 1 {
				t.Errorf("backlogged: %v", names)
			}
		})
	}
}

// A job that came back and was removed by somebody else leaves its place to
// others that come back.
func TestReturnedJobVanishes(t *testing.T) {
	v, s, kept := overflowing(t, 3, 4, 5)
	v.drain("email", 2)
	v.readmit("email", kept[0])
	s.Client().Del(v.ctx, "ps{0}j1:job-0003")
	if r := v.reserve("email"); len(r.Jobs) != 0 {
		t.Fatalf("granted %+v", r.Jobs)
	}
	if r := v.readmit("email", kept[1:]...); r.Outcomes[0] != readmit.Returned || r.Outcomes[1] != readmit.NotYet {
		t.Errorf("readmit: %+v", r)
	}
}

// Redis itself drops the record of a deferred job when nobody can ask for it any
// more, be the job cancelled or its queue deleted.
func TestRecordsOfDeferredJobsEnd(t *testing.T) {
	v, s, _ := overflowing(t)
	c := s.Client()
	v.put("email", leaky.Unlimited, func(s *queue.Spec) {
		enginetest.Deferring(2)(s)
		s.Deferred.MaxAge, s.Retention.For = unit.Duration(time.Hour), unit.Duration(2*time.Hour)
	})
	v.setAside("email", 3, 4)
	if _, err := v.e.Cancel(v.ctx, "email", "job-0004"); err != nil {
		t.Fatal(err)
	}
	if err := v.e.Delete(v.ctx, "email", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if more, err = v.e.Sweep(v.ctx, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range c.Keys(v.ctx, "*").Val() {
		left := c.PTTL(v.ctx, key).Val()
		switch {
		case key == "ps{0}j1:job-0003", key == "ps{0}j1:job-0004":
			if left > 3*time.Hour || left < 3*time.Hour-time.Minute {
				t.Errorf("%s is kept for another %v, want max_age and retention, 3 h", key, left)
			}
		case strings.HasPrefix(key, "ps{0}j"), key == "ps{0}o":
			t.Errorf("%s is left", key)
		}
	}
	if got, err := v.e.Totals(v.ctx); err != nil || got != (queue.Totals{}) {
		t.Errorf("totals %+v, %v", got, err)
	}
}

// Room is heard of again after the connection it came by was lost.
func TestRoomAfterReconnect(t *testing.T) {
	v, s, _ := overflowing(t, 3)
	c := s.Client()
	room := v.e.Room(v.ctx)
	subscribed(t, c, "ps:room")
	if n, err := c.ClientKillByFilter(v.ctx, "TYPE", "pubsub").Result(); err != nil || n != 1 {
		t.Fatalf("%d connections killed, %v", n, err)
	}
	subscribed(t, c, "ps:room")
	v.drain("email", 2)
	select {
	case name := <-room:
		if name != "email" {
			t.Errorf("room in %q", name)
		}
	case <-time.After(30 * time.Second):
		t.Error("nobody spoke of the room")
	}
}
