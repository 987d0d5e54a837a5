package machine

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// limited sets limits: quotas such as "5/h" or rates such as "10/s".
func limited(t testing.TB, texts ...string) func(*queue.Spec) {
	var list []queue.Limit
	for _, text := range texts {
		var m queue.Limit
		if m.Quota.UnmarshalText([]byte(text)) != nil || text[len(text)-1] == 's' {
			m = queue.Limit{Rate: rateOf(t, text)}
		}
		list = append(list, m)
	}
	return func(s *queue.Spec) { s.Limits, s.Lease = list, unit.Duration(time.Hour) }
}

// Over crashes and reopenings, a queue, a child and their group never exceed a further pace and a quota.
func TestLimitsHoldOverCrashes(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", limited(t, "50/s", "300/m"))
	b.MustPut("q.a", "unlimited", limited(t, "15/m"))
	b.MustPut("fast", "unlimited", limited(t, "3000/m"))
	rnd := rand.New(rand.NewPCG(1, 9))
	var all []law.Start
	used := map[string]map[int64]int64{"q": {}, "q.a": {}, "fast": {}}
	id := 0
	for range 300 {
		switch rnd.IntN(9) {
		case 0:
			b.crash()
		case 1:
			b.reopen()
		case 2, 3, 4:
			for range 1 + rnd.IntN(30) {
				j := enginetest.Job([]string{"q", "q.a", "fast"}[rnd.IntN(3)], id)
				j.Cost = 1 + rnd.Int64N(9)
				if j.Queue == "fast" {
					j.Cost = 1 + rnd.Int64N(300)
				}
				if _, err := b.Append(context.Background(), []queue.Job{j}); err != nil {
					t.Fatal(err)
				}
				id++
			}
		default:
			b.Advance(time.Duration(rnd.Int64N(int64(3 * time.Second))))
		}
		now := b.engineNow()
		got := b.MustReserve(20)
		for i, r := range got {
			at := now.Add(r.In)
			minute := int64(at) / 60_000_000
			used[r.Queue][minute] += r.Cost
			if names.Group(r.Queue) == "q" {
				all = append(all, law.Start{At: since(at), Cost: r.Cost})
				if r.Queue == "q.a" {
					used["q"][minute] += r.Cost
				}
			}
			if i%5 == 0 {
				b.MustSettle(queue.Deliver, got[i:i+1])
			}
		}
	}
	if v := (law.Law{Rate: rateOf(t, "50/s"), Burst: 1, MaxCost: 9, Slack: time.Microsecond}).Judge(all); !v.Held {
		t.Errorf("%d starts: %+v", len(all), v)
	}
	for name, most := range map[string]int64{"q": 300, "q.a": 15, "fast": 3000} {
		total := int64(0)
		for minute, n := range used[name] {
			total += n
			if n > most {
				t.Errorf("%d of %d left %s in minute %d", n, most, name, minute)
			}
		}
		if total < most {
			t.Errorf("only %d left %s", total, name)
		}
	}
}

// A quota is exact again after an orderly restart, and its states too.
func TestLimitsAreTheSameAfterReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", limited(t, "5000/m", "100/s", "5/h"))
	b.AppendTo("q", 0, 9)
	for range 3 {
		b.MustReserve(1)
		b.Advance(time.Second)
	}
	states := b.MustGet("q").Limits
	if states[0].Window.Used != 3 || states[2].Window.Used != 3 || states[1].Bucket.TAT == 0 {
		t.Fatalf("%+v", states)
	}
	b.reopen()
	again := b.MustGet("q").Limits
	if again[0] != states[0] || again[2] != states[2] || again[1].Bucket.TAT < states[1].Bucket.TAT {
		t.Errorf("%+v became %+v", states, again)
	}
	if got := len(b.MustReserve(9)); got != 1 {
		t.Errorf("%d granted at 100/s", got)
	}
	for range 9 {
		b.Advance(time.Second)
		b.MustReserve(1)
	}
	if i := b.MustGet("q"); i.Leased != 2 || i.Waiting != 7 {
		t.Errorf("%d left by 5/h in this process, %d wait", i.Leased, i.Waiting)
	}
}

// Deleting a queue and creating it again, even with another quota or after reopening, does not evade its limits.
func TestARemadeQueueIsBoundByItsLimits(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", limited(t, "4/h", "1/s"))
	b.AppendTo("q", 0, 9)
	for range 3 {
		b.MustReserve(1)
		b.Advance(time.Second)
	}
	if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	for _, texts := range [][]string{{"4/h"}, {"2/s", "5/h"}, {"5/h", "2/s"}} {
		b.reopen()
		b.MustPut("q", "unlimited", limited(t, texts...))
		for i, s := range b.MustGet("q").Limits {
			if want := int64(3); texts[i] != "2/s" && s.Window.Used != want {
				t.Errorf("%s: %+v, want %d used", texts[i], s, want)
			}
		}
		if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err != nil {
			t.Fatal(err)
		}
	}
	b.Advance(2 * time.Hour)
	if _, err := b.Sweep(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if n := b.records(leftPacesTable); n != 0 {
		t.Errorf("what was left is kept for %d queues", n)
	}
}

// A Put that fails leaves the limits as they were.
func TestAPutOfLimitsCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	b.MustPut("q", "unlimited", limited(t, "5/h"))
	b.AppendTo("q", 0, 9)
	b.MustReserve(2)
	spec := b.MustGet("q").Spec
	limited(t, "3/h", "1/s")(&spec)
	n.refuse(b, "put", func() error { return second(b.Put(context.Background(), spec, queue.AnyRevision)) })
	if err := second(b.Put(context.Background(), spec, queue.AnyRevision)); err != nil {
		t.Fatal(err)
	}
	if s := b.MustGet("q").Limits; len(s) != 2 || s[0].Window.Used != 2 {
		t.Errorf("%+v", s)
	}
}

// A large quota needs a commit now and then, not one per grant.
func TestCommitsOfQuotas(t *testing.T) {
	commits := 0
	b := start(t, Options{synced: func() { commits++ }})
	b.MustPut("q", "unlimited", limited(t, "50000/d"))
	b.AppendTo("q", 0, 500)
	before := commits
	for range 100 {
		if got := b.MustReserve(5); len(got) != 5 {
			t.Fatalf("%d granted", len(got))
		}
	}
	if n := commits - before; n > 12 {
		t.Errorf("500 grants made %d commits", n)
	}
}

// A calendar is renewed before it ends, by any call, and after reopening.
func TestCalendarsAreRenewed(t *testing.T) {
	b := start(t, Options{})
	limits := []queue.Limit{{Quota: queue.Quota{Max: 2, Per: "d"}, Timezone: "Europe/Berlin"}}
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Limits = limits })
	left := func() int {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.queues["q"].limits[0].quota.Calendar.Left(b.now())
	}
	least := left()
	for range 200 {
		b.Advance(24 * time.Hour)
		least = min(least, left())
	}
	if least < 31 {
		t.Errorf("only %d ends were left", least)
	}
	b.Advance(100 * 24 * time.Hour)
	b.AppendTo("q", 0, 3)
	b.reopen()
	if n := left(); n < 31 {
		t.Errorf("%d ends are left after a reopening", n)
	}
	if got := b.MustReserve(9); len(got) != 2 {
		t.Errorf("%d granted", len(got))
	}
	calendar, err := limits[0].Calendar(b.engineNow().Time())
	if err != nil {
		t.Fatal(err)
	}
	j, err := b.Job(context.Background(), "q", enginetest.Job("q", 2).ID)
	want := queue.Why{By: cause.Quota, Until: calendar.End(b.engineNow()).Time(), Reason: "2/d Europe/Berlin"}
	if err != nil || !reflect.DeepEqual(j.Why, want) || !j.ETA.At.Equal(want.Until) {
		t.Errorf("%+v, %v, want %+v", j, err, want)
	}
}

// A file with truncated limits is refused.
func TestPacesOfDeletedQueuesAreReadBack(t *testing.T) {
	p := paces{pacer: leaky.Pacer{Rate: rateOf(t, "14/s"), Burst: 9, Horizon: queue.Horizon}}
	p.bucket = leaky.Bucket{TAT: 5, Last: 4, LastCost: 3}
	for _, m := range []queue.Limit{
		{Rate: rateOf(t, "5/s"), Burst: 2}, {Quota: queue.Quota{Max: 7, Per: "mo"}, Timezone: "Asia/Tokyo"},
	} {
		l, err := newLimit(m, nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		l.bucket, l.window = leaky.Bucket{TAT: 8, Last: 7, LastCost: 6}, leaky.Window{Ends: 9, Used: 2}
		p.limits = append(p.limits, l)
	}
	text, err := encodePaces(&p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := decodePaces(text, nil, noon); err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("%+v, %v, want %+v", again, err, p)
	}
	for n := range text {
		if _, err := decodePaces(text[:n], nil, noon); !errors.Is(err, queue.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

// A request whose reply was lost is repeated after the limits changed at the instant of the grant.
func TestLimitsChangedAtTheInstantOfAGrant(t *testing.T) {
	b, ctx := start(t, Options{}), context.Background()
	b.MustPut("q", "unlimited", limited(t, "5/h"))
	b.MustPut("q", "unlimited", limited(t, "5/h", "50/s", "300/m"))
	b.AppendTo("q", 0, 3)
	req := queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 1}
	for _, change := range []func(*queue.Spec){limited(t, "50/s"), limited(t), limited(t, "1/h", "2/s")} {
		if r, err := b.Reserve(ctx, req); err != nil || len(r.Jobs) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		b.MustPut("q", "unlimited", change)
	}
}
