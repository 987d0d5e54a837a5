package queuetest

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// circuitAfter sets the number of failures that opens a queue's circuit, and its probe intervals.
func circuitAfter(failures int64, least, most time.Duration) func(*queue.Spec) {
	return func(s *queue.Spec) {
		s.Circuit = queue.Circuit{Failures: failures, MinProbe: unit.Duration(least), MaxProbe: unit.Duration(most)}
	}
}

// circuit compares the state of a queue's circuit; reason and probe count only while it is open.
func (r *rig) circuit(queueName string, failures int64, opened leaky.Instant, probe time.Duration, reason string) {
	r.Helper()
	want := queue.CircuitInfo{Failures: failures, Probe: unit.Duration(probe), Reason: reason}
	if opened != 0 {
		want.Opened = opened.Time()
	}
	if got := r.info(queueName).Circuit; got.Failures != failures || !got.Opened.Equal(want.Opened) ||
		got.Probe != want.Probe || got.Reason != reason {
		r.Errorf("the circuit of %s is %+v, want %+v", queueName, got, want)
	}
}

// breakdown fails as many jobs as it takes to open a queue's circuit.
func (r *rig) breakdown(queueName string) leaky.Instant {
	r.Helper()
	most := r.info(queueName).Spec.Circuit.Failures
	for n := int64(1); ; n++ {
		got := r.reserve(queueName, 1)
		if len(got) != 1 {
			r.Fatalf("%d jobs were granted", len(got))
		}
		e := r.settleWith(queue.Down, "refused", 0, got[0])
		if n == most {
			if !e.Opened || e.Closed || e.Stopped != r.info(queueName).Spec.Circuit.MinProbe.D() {
				r.Fatalf("after %d failures: %+v", n, e)
			}
			return r.clock.Now()
		}
		if e != (queue.Effect{}) {
			r.Fatalf("failure %d did %+v", n, e)
		}
	}
}

// probe moves the clock to an instant at which one job leaves, and checks that none leaves earlier.
func (r *rig) probe(queueName string, at leaky.Instant) queue.Reservation {
	r.Helper()
	r.clock.Set(at - leaky.Instant(queue.Horizon.Microseconds()) - 1)
	r.sameIDs(r.reserve(queueName, 9))
	r.clock.Set(at)
	got := r.reserve(queueName, 9)
	if len(got) != 1 || r.departure(got[0]) != at {
		r.Fatalf("probed by %+v, want one that leaves at %v", got, at.Time())
	}
	return got[0]
}

var circuitRules = []rule{
	{"consecutive failures open the circuit, and the queue stops", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(3, time.Second, 8*time.Second))
		r.appendNumbered(q, 6)
		for i := range 2 {
			r.settleWith(queue.Down, "refused", 0, r.grant(q, 1, "j1")[0])
			r.circuit(q, int64(i+1), 0, 0, "")
		}
		r.deliver(r.grant(q, 1, "j1")...)
		r.circuit(q, 0, 0, 0, "")
		v := r.grant(q, 3, "j2", "j3", "j4")
		for i, s := range []queue.Settlement{
			settlement(queue.Down, v[0]), settlement(queue.Fail, v[1]), settlement(queue.Down, v[2]),
		} {
			s.Trouble, s.Reason, s.After = s.Verdict == queue.Fail, fmt.Sprint("503 ", i), time.Minute
			want := queue.Effect{}
			if i == 2 {
				want = queue.Effect{Opened: true, Stopped: time.Second}
			}
			if got := r.settle(s)[0].Effect; got != want {
				r.Errorf("failure %d did %+v", i, got)
			}
		}
		now := r.clock.Now()
		r.circuit(q, 3, now, time.Second, "503 2")
		r.stops(q, now.Add(time.Second), queue.StopDown, "503 2")
		r.waitsFor(lasting(cause.Down, now.Add(time.Second), "503 2"), q, "j2", "j4", "j6")
		r.grant(q, 9)
		if i := r.job(q, "j3"); i.Attempts != 1 {
			r.Errorf("a job that failed before has %d attempts", i.Attempts)
		}
	}},
	{"single probes leave at a growing interval up to the longest, answered or not", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(2, time.Second, 5*time.Second), leased(time.Minute, 3))
		r.appendNumbered(q, 9)
		at := r.breakdown(q)
		for i, wait := range []time.Duration{
			time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second,
		} {
			at = at.Add(wait)
			v := r.probe(q, at)
			next := min(5*time.Second, 2*wait)
			r.stops(q, at.Add(next), queue.StopDown, "refused")
			if i%2 == 0 { // the others are never answered
				r.settleWith(queue.Down, "refused", 0, v)
			}
		}
		if i := r.info(q); i.Lost != 0 || i.Down != 5 {
			r.Errorf("%+v", i)
		}
	}},
	{"failing probes spend no attempt, whatever the failure", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(2, time.Second, time.Second), leased(time.Minute, 2))
		r.accept(q, "a")
		at := r.breakdown(q)
		for range 5 {
			at = at.Add(time.Second)
			s := settlement(queue.Fail, r.probe(q, at))
			s.Trouble, s.Reason = true, "503"
			r.settled(queue.Scheduled, s)
			if i := r.job(q, "a"); i.Attempts != 0 {
				r.Fatalf("it is %+v", i)
			}
		}
		r.settled(queue.Dead, settlement(queue.Bury, r.probe(q, at.Add(time.Second))))
		if i := r.info(q); i.Down != 7 || i.Retried != 0 || i.Died != 1 || i.Circuit.Open() {
			r.Errorf("%+v", i)
		}
	}},
	{"a failure to be retried later shows the reason", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(1, time.Second, time.Second))
		r.accept(q, "a")
		at := r.breakdown(q).Add(time.Second)
		s := settlement(queue.Fail, r.probe(q, at))
		s.Trouble, s.Reason, s.After = true, "503", time.Hour
		r.settled(queue.Scheduled, s)
		r.waitsFor(lasting(cause.BackingOff, at.Add(time.Hour), "503"), q, "a")
		r.clock.Set(at.Add(time.Hour))
		r.settled(queue.Scheduled, s)
		if v := r.grant(q, 1, "a"); v[0].Attempt != 1 {
			r.Errorf("it is attempt %d", v[0].Attempt)
		}
	}},
	{"a success closes the circuit, and the queue continues at its rate without a burst", func(r *rig) {
		for _, verdict := range []queue.Verdict{queue.Deliver, queue.Bury, queue.Fail} {
			q := r.queue("q", "10/s", circuitAfter(2, time.Minute, time.Hour), func(s *queue.Spec) { s.Burst = 5 })
			r.appendNumbered(q, 9)
			v := r.probe(q, r.breakdown(q).Add(time.Minute))
			r.clock.Advance(time.Second)
			after := time.Hour
			if verdict == queue.Deliver { // with which it would stop again
				after = 0
			}
			if e := r.settleWith(verdict, "no such address", after, v); e != (queue.Effect{Closed: true}) {
				r.Errorf("%v did %+v", verdict, e)
			}
			r.circuit(q, 0, 0, 0, "")
			r.stops(q, 0, "", "")
			r.checkDepartures(q, 8, r.clock.Now(), 100*time.Millisecond)
			r.delete(q)
			r.clock.Advance(24 * time.Hour)
		}
	}},
	{"a throttled answer closes the circuit too, and stops the queue", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(1, time.Second, time.Hour))
		r.accept(q, "a", "b")
		v := r.probe(q, r.breakdown(q).Add(time.Second))
		if e := r.settleWith(queue.Throttle, "429", time.Minute, v); e != (queue.Effect{
			Closed: true, Stopped: time.Minute,
		}) {
			r.Errorf("it did %+v", e)
		}
		r.circuit(q, 0, 0, 0, "")
		r.stops(q, r.clock.Now().Add(time.Minute), queue.StopThrottled, "429")
	}},
	{"the receiver's stop outlasts the opening and the closing of the circuit", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(1, time.Second, time.Hour))
		r.appendNumbered(q, 4)
		v := r.grant(q, 3, "j1", "j2", "j3")
		now := r.clock.Now()
		r.settleWith(queue.Throttle, "429", time.Minute, v[0])
		if e := r.settleWith(queue.Down, "refused", 0, v[1]); e != (queue.Effect{Opened: true}) {
			r.Errorf("it did %+v", e)
		}
		r.stops(q, now.Add(time.Minute), queue.StopThrottled, "429")
		r.waitsFor(lasting(cause.Down, now.Add(time.Minute), "refused"), q, "j4")
		if e := r.settleWith(queue.Deliver, "", 0, v[2]); e != (queue.Effect{Closed: true}) {
			r.Errorf("it did %+v", e)
		}
		r.stops(q, now.Add(time.Minute), queue.StopThrottled, "429")
	}},
	{"a probe that is released, or whose drainer dies, is followed by the next", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(1, time.Second, 2*time.Second), leased(time.Second, 9))
		r.accept(q, "a")
		at := r.breakdown(q).Add(time.Second)
		r.release(r.probe(q, at))
		at = at.Add(2 * time.Second)
		r.probe(q, at) // and nobody answers
		r.probe(q, at.Add(2*time.Second))
		r.circuit(q, 1, r.clock.Now().Add(-5*time.Second), 2*time.Second, "refused")
	}},
	{"a poison job among good ones dies without opening the circuit", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(3, time.Second, time.Minute), leased(time.Minute, 4))
		r.accept(q, "poison")
		for i := range 4 {
			good := fmt.Sprint("good", i)
			r.accept(q, good)
			v := r.grant(q, 2, "poison", good)
			s := settlement(queue.Fail, v[0])
			s.Trouble, s.Reason = true, "500"
			r.settle(s)
			r.deliver(v[1])
		}
		r.state(queue.Dead, q, "poison")
		r.circuit(q, 0, 0, 0, "")
	}},
	{"a permanent failure of the job itself is an answer", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(2, time.Second, time.Minute))
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 3, "a", "b", "c")
		r.settleWith(queue.Down, "refused", 0, v[0])
		r.fail(time.Hour, v[1])
		r.settleWith(queue.Down, "refused", 0, v[2])
		r.circuit(q, 1, 0, 0, "")
	}},
	{"a disabled circuit stays closed; disabling closes it; once enabled, the next failure counts", func(r *rig) {
		off := func(s *queue.Spec) { s.Circuit.Off = true }
		q := r.queue("q", "10/s", circuitAfter(2, time.Minute, time.Minute), off)
		r.accept(q, "a", "b")
		for range 3 {
			r.settleWith(queue.Down, "refused", 0, r.grant(q, 1, "a")[0])
			r.clock.Advance(100 * time.Millisecond)
		}
		r.circuit(q, 3, 0, 0, "")
		r.queue(q, "10/s", circuitAfter(2, time.Minute, time.Minute))
		if e := r.settleWith(queue.Down, "refused", 0, r.grant(q, 1, "a")[0]); !e.Opened {
			r.Errorf("it did %+v", e)
		}
		r.clock.Advance(time.Second)
		r.queue(q, "10/s", circuitAfter(2, time.Minute, time.Minute), off)
		r.circuit(q, 0, 0, 0, "")
		r.checkDepartures(q, 2, r.clock.Now(), 100*time.Millisecond)
	}},
	{"resuming closes the circuit", func(r *rig) {
		q := r.queue("q", "10/s", circuitAfter(1, time.Hour, time.Hour))
		r.accept(q, "a", "b")
		r.breakdown(q)
		r.clock.Advance(time.Minute)
		r.check(r.e.Resume(r.ctx, q))
		r.circuit(q, 0, 0, 0, "")
		r.stops(q, 0, "", "")
		r.checkDepartures(q, 2, r.clock.Now(), 100*time.Millisecond)
	}},
	{"in a group the circuit belongs to one queue", func(r *rig) {
		r.group("p 10/s", "a unlimited", "b unlimited")
		r.put(groupSpec("a unlimited", circuitAfter(1, time.Minute, time.Minute)))
		r.appendGroup("a1 a2")
		at := r.breakdown("ses.a").Add(time.Minute)
		r.appendGroup("b1")
		r.clock.Advance(100 * time.Millisecond)
		r.deliver(r.grant("ses", 9, "b1")...)
		v := r.probe("ses.a", at)
		r.clock.Advance(time.Second)
		r.deliver(v)
		r.checkDepartures("ses.a", 1, r.clock.Now(), 0)
	}},
	{"the settlement that opens the circuit says so, also among others in its call", func(r *rig) {
		q := r.queue("q", "unlimited", circuitAfter(2, time.Second, time.Minute), leased(time.Minute, 2))
		r.appendNumbered(q, 4)
		var all []queue.Settlement
		for _, v := range r.grant(q, 4, "j1", "j2", "j3", "j4") {
			s := settlement(queue.Fail, v)
			s.Trouble = true
			all = append(all, s)
		}
		out := r.settle(all...)
		for i, want := range []queue.Effect{{}, {Opened: true, Stopped: time.Second}, {}, {}} {
			if out[i].Effect != want {
				r.Errorf("settlement %d did %+v", i, out[i].Effect)
			}
			if n := r.job(q, fmt.Sprint("j", i+1)).Attempts; n != map[bool]int{true: 1}[i < 2] {
				r.Errorf("j%d has %d attempts", i+1, n)
			}
		}
	}},
}
