package departure

import (
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// The engine's clock is known as well as the best answer says, and a little less as time passes.
func TestClock(t *testing.T) {
	local, engine := time.Now(), time.Unix(1e9, 0)
	// seen is an answer: the request left then and was answered then, while the engine's clock showed shows; all since
	// the beginning.
	type seen struct{ asked, shows, answered time.Duration }
	for _, c := range []struct {
		name         string
		answers      []seen
		departs      time.Duration // of the engine's clock
		early, late  time.Duration // between which that is
		lead, unsure time.Duration // as the engine is told
	}{
		{"one answer", []seen{{0, ms, 2 * ms}}, 10 * ms, 9 * ms, 11 * ms, 24 * ms, 0},
		{
			"a slow one behind a fast one says no more",
			[]seen{{0, ms, ms}, {2 * ms, 9 * ms, 22 * ms}},
			30*ms - 21*us, 29*ms - 42*us, 30 * ms, 23_375 * us, 0,
		},
		{
			"a fast one behind a slow one says all",
			[]seen{{0, 9 * ms, 20 * ms}, {22 * ms, 22 * ms, 22 * ms}},
			30 * ms, 30 * ms, 30 * ms, 20_875 * us, 0,
		},
		{
			"both sides of two",
			[]seen{{0, 0, 4 * ms}, {10 * ms, 14 * ms, 14 * ms}},
			20 * ms, 20 * ms, 20 * ms, 21_375 * us, 0,
		},
		{"none is fast", []seen{{0, 0, 20 * ms}}, 30 * ms, 30 * ms, 50 * ms, 24 * ms, 20 * ms},
		{
			"it drifts",
			[]seen{{0, 0, 0}, {900 * ms, 900 * ms, 1900 * ms}},
			2 * time.Second, 1999 * ms, 2*time.Second + 1900*us, 49 * ms, 2900 * us,
		},
		{
			"what is long ago is forgotten",
			[]seen{{0, 0, 0}, {10 * time.Second, 10 * time.Second, 11 * time.Second}},
			12 * time.Second, 11_999 * ms, 13_001 * ms, 49 * ms, 0,
		},
		{
			"it was set ahead by an hour",
			[]seen{{0, 0, ms}, {10 * ms, time.Hour, 11 * ms}},
			time.Hour + 20*ms, 30 * ms, 31 * ms, 21 * ms, 0,
		},
		{
			"it was set back by an hour",
			[]seen{{0, time.Hour, ms}, {10 * ms, 0, 11 * ms}},
			20 * ms, 30 * ms, 31 * ms, 21 * ms, 0,
		},
	} {
		var k Clock
		for _, a := range c.answers {
			k.Observe(engine.Add(a.shows), local.Add(a.asked), local.Add(a.answered))
		}
		r := k.Request(queue.ReserveRequest{Number: 1}, local)
		w := k.Window(engine.Add(c.departs), time.Second)
		if early, late := w.DepartsFrom.Sub(local), w.DepartsBy.Sub(local); (early-c.early).Abs() > 50*us ||
			(late-c.late).Abs() > 50*us {
			t.Errorf("%s: between %v and %v, want %v and %v", c.name, early, late, c.early, c.late)
		}
		if w.LeaseEnd != w.DepartsFrom.Add(time.Second) {
			t.Errorf("%s: the lease ends %v after the departure", c.name, w.LeaseEnd.Sub(w.DepartsFrom))
		}
		if (r.Lead-c.lead).Abs() > 50*us || (r.Uncertainty-c.unsure).Abs() > 50*us {
			t.Errorf("%s: lead %v, uncertainty %v; want %v, %v", c.name, r.Lead, r.Uncertainty, c.lead, c.unsure)
		}
	}
}

// Whatever the answers, the engine's clock lies between the bounds, which only time widens.
func TestClockHolds(t *testing.T) {
	local, engine := time.Now(), time.Unix(1e9, 0)
	var k Clock
	at, seed := time.Duration(0), uint64(1)
	random := func(most time.Duration) time.Duration { // xorshift
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		return time.Duration(seed % uint64(most))
	}
	for range 10_000 {
		at += random(100 * ms)
		there, back := random(10*ms), random(30*ms)
		if seed%7 == 0 {
			there, back = there/100, back/100
		}
		fast := time.Duration(float64(at) * 400e-6) // it runs ahead by 400 ppm
		k.Observe(engine.Add(at+there+fast), local.Add(at), local.Add(at+there+back))
		at += there + back
		fast = time.Duration(float64(at) * 400e-6)
		w := k.Window(engine.Add(at+fast), time.Second)
		if is := local.Add(at); is.Before(w.DepartsFrom.Add(-us)) || is.After(w.DepartsBy.Add(us)) {
			t.Fatalf("after %v: %v is not between %v and %v", at, at, w.DepartsFrom.Sub(local), w.DepartsBy.Sub(local))
		}
		if k.uncertainty() < 0 {
			t.Fatalf("after %v: the bounds crossed", at)
		}
	}
}

// A late arrival is remembered for a while.
func TestLead(t *testing.T) {
	var k Clock
	now := time.Now()
	for range 100 {
		k.Observe(now, now, now) // at first it is long
	}
	for i, c := range []struct{ trip, took, least, most time.Duration }{
		{ms / 2, 0, 0, 0},
		{ms, 30 * ms, 29 * ms, 29 * ms},
		{ms, 0, 24 * ms, 26 * ms},
		{ms, 0, 20 * ms, 23 * ms},
		{ms, 5 * ms, 17 * ms, 21 * ms},
		{40 * ms, 0, 39 * ms, 39 * ms},
	} {
		if c.took > 0 {
			k.Took(c.took)
			k.Took(c.took / 2)
		}
		k.Observe(now, now, now.Add(c.trip))
		if r := k.Request(queue.ReserveRequest{}, now); r.Lead < c.least || r.Lead > c.most {
			t.Errorf("answer %d: a lead of %v, want %v to %v", i, r.Lead, c.least, c.most)
		}
	}
	now = now.Add(2 * time.Second)
	k.Observe(now, now, now.Add(2*ms))
	if r := k.Request(queue.ReserveRequest{}, now); r.Lead > 2*ms {
		t.Errorf("after a second without a call: a lead of %v", r.Lead)
	}
	k = Clock{}
	k.Observe(now, now, now.Add(300*ms))
	if r := k.Request(queue.ReserveRequest{}, now); r.Lead > queue.Horizon/2 {
		t.Errorf("a new connection makes a lead of %v", r.Lead)
	}
}

// The lead of a client that waits for each job follows its usual calls.
func TestLeadOfUsualCalls(t *testing.T) {
	k := Clock{Usual: true}
	now := time.Now()
	for i, c := range []struct{ after, trip, lead time.Duration }{
		{0, 300 * ms, 24 * ms}, // the first call made a connection
		{ms, 2 * ms, ms},       // it does not count any more
		{ms, 40 * ms, ms},      // one slow call
		{ms, 2 * ms, ms},
		{ms, 30 * ms, 29 * ms}, // a second one
		{ms, 2 * ms, 29 * ms},
		{2 * time.Second, 3 * ms, ms}, // long ago: only the shortest counts
		{ms, 20 * ms, 2 * ms},
		{ms, 300 * ms, 19 * ms},
		{ms, 300 * ms, 49 * ms}, // the engine grants no further ahead
		{ms, 0, 49 * ms},
		{ms, 0, 49 * ms},
		{ms, 0, 49 * ms},
		{ms, 0, 49 * ms},
		{ms, 0, 49 * ms},
		{ms, 0, 49 * ms},
		{ms, 0, 0}, // eight calls later
	} {
		asked := now.Add(c.after)
		now = asked.Add(c.trip)
		k.Observe(asked, asked, now)
		if r := k.Request(queue.ReserveRequest{}, now); (r.Lead - c.lead).Abs() > 10*us {
			t.Errorf("answer %d: a lead of %v, want %v", i, r.Lead, c.lead)
		}
	}
}

// Before a client knows the clock, and while it knows it badly, it asks, with pauses of up to a second.
func TestResync(t *testing.T) {
	var k Clock
	now := time.Now()
	if !k.Resync(now) {
		t.Error("not at first")
	}
	k.Observe(now, now, now.Add(ms))
	if k.Resync(now) {
		t.Error("although the clock is known")
	}
	k = Clock{}
	k.Observe(now, now, now.Add(20*ms))
	for i, c := range []struct {
		after time.Duration
		want  bool
	}{
		{20 * ms, true}, {29 * ms, false}, {30 * ms, true}, {49 * ms, false}, {50 * ms, true}, {time.Minute, true},
	} {
		if got := k.Resync(now.Add(c.after)); got != c.want {
			t.Errorf("%d: after %v: %v, want %v", i, c.after, got, c.want)
		}
	}
	now = now.Add(time.Hour)
	for range 100 {
		now = now.Add(100 * ms)
		k.Observe(now, now, now.Add(20*ms))
		if k.Resync(now) {
			t.Error("although other calls are answered")
		}
	}
	if !k.Resync(now.Add(2 * time.Second)) {
		t.Error("no call was answered for two seconds, and it does not ask")
	}
	k.Observe(now, now, now.Add(ms))
	if k.Resync(now) || k.pause != 0 {
		t.Errorf("the clock is known, and the pause is %v", k.pause)
	}
}

// A request has the latest time that the engine's clock can show: unknown before the first answer, and later counted
// from what the clock showed when the call started.
func TestARequestSaysTheLastInstantThatTheEnginesClockCanShow(t *testing.T) {
	var k Clock
	local, engine := time.Now(), time.Unix(1e9, 0)
	if r := k.Request(queue.ReserveRequest{}, local); !r.Latest.IsZero() {
		t.Errorf("nothing is known, and it is %v at most", r.Latest)
	}
	k.Observe(engine, local, local.Add(4*time.Millisecond))
	r := k.Request(queue.ReserveRequest{}, local.Add(time.Second))
	if d := r.Latest.Sub(engine.Add(time.Second)); d < 0 || d > 2*time.Millisecond {
		t.Errorf("a second later it is %v more than a second later", d)
	}
}

// A client that sent its uncertainty may start jobs that much later, but not later, even if it knows the clock less
// well when the answer comes.
func TestLatest(t *testing.T) {
	departs := time.Now()
	for _, c := range []struct{ told, unsure, slack, lease, latest time.Duration }{
		{0, 0, 5 * ms, time.Second, 5 * ms},
		{0, 20 * ms, 5 * ms, time.Second, 5 * ms}, // so it does not start
		{0, 0, time.Second, 300 * ms, 300 * ms},
		{20 * ms, 20 * ms, 5 * ms, time.Second, 22_500 * us},
		{20 * ms, 10 * ms, 5 * ms, time.Second, 12_500 * us},
		{20 * ms, 22 * ms, 5 * ms, time.Second, 22_500 * us},
		{20 * ms, 3 * time.Second, 5 * ms, 5 * time.Second, 22_500 * us}, // so it does not start
		{20 * ms, 20 * ms, 500 * ms, time.Second, 500 * ms},
	} {
		w := Window{
			DepartsFrom: departs, DepartsBy: departs.Add(c.unsure), LeaseEnd: departs.Add(c.lease), told: c.told,
		}
		if got := w.Latest(c.slack).Sub(departs); got != c.latest {
			t.Errorf("told %v, uncertain by %v, slack %v: at most %v late, want %v", c.told, c.unsure, c.slack, got, c.latest)
		}
	}
}

// Requests of several clients with the same number are not repetitions.
func TestUncertaintyOfClients(t *testing.T) {
	local, engine := time.Now(), time.Unix(1e9, 0)
	var k Clock
	for i, c := range []struct {
		client string
		trip   time.Duration // of the answer before
		told   time.Duration
	}{
		{"a", 5 * ms, 5 * ms},
		{"a", 20 * ms, 5 * ms}, // repeated
		{"b", 0, 20 * ms},
	} {
		if c.trip > 0 {
			k.recent, k.before = anything, anything
			k.Observe(engine, local, local.Add(c.trip))
		}
		r := k.Request(queue.ReserveRequest{Client: queue.Client{ID: c.client}, Number: 7}, local)
		if (r.Uncertainty - c.told).Abs() > 50*us {
			t.Errorf("request %d: uncertainty %v, want %v", i, r.Uncertainty, c.told)
		}
	}
}
