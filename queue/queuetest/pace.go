package queuetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// bucketMirror models the engine's bucket. Package leaky proves that the arithmetic keeps the window law.
type bucketMirror struct {
	p leaky.Pacer
	b leaky.Bucket
}

func mirrorOf(s queue.Spec) *bucketMirror { return &bucketMirror{p: s.Pacer(queue.Horizon)} }

func (m *bucketMirror) change(s queue.Spec, now leaky.Instant) {
	q := s.Pacer(queue.Horizon)
	if q != m.p {
		m.b = m.p.Change(m.b, q, now)
		m.p = q
	}
}

// departs compares the departures of the jobs just granted with the mirror. If a backlog remains, no further job may
// have been grantable.
func (r *rig) departs(m *bucketMirror, got []queue.Reservation, backlog bool) {
	r.Helper()
	now := r.clock.Now()
	for _, v := range got {
		d, ok := m.p.Take(&m.b, now, v.Cost)
		if !ok {
			r.Fatalf(
				"%s was granted in %v, which is too early: the next departs in %v", v.ID, v.In,
				m.p.Next(m.b, now).Sub(now),
			)
		}
		if v.In != d.Sub(now) {
			r.Fatalf("%s departs in %v, want %v", v.ID, v.In, d.Sub(now))
		}
	}
	if next := m.p.Next(m.b, now); backlog && next <= now.Add(queue.Horizon) {
		r.Fatalf("nothing more was granted, but one could depart in %v", next.Sub(now))
	}
}

// follow drains a backlog, asking when the engine says, and checks each departure.
func (r *rig) follow(m *bucketMirror, queueName string, count int) {
	r.Helper()
	for n := 0; n < count; {
		res := r.reserveAs("client", queueName, queue.MaxReserve)
		r.departs(m, res.Jobs, n+len(res.Jobs) < count)
		n += len(res.Jobs)
		r.deliver(res.Jobs...)
		if res.Next < 0 || res.Next > 2*time.Second {
			r.Fatalf("next in %v", res.Next)
		}
		r.clock.Advance(max(res.Next, time.Millisecond))
	}
}

var paceRules = []rule{
	{"departures are exact at every rate, burst and cost", func(r *rig) {
		for i, tt := range []struct {
			rate  string
			burst int64
			cost  int64 // up to
		}{
			{"14/s", 1, 1},
			{"14/s", 1, 5},
			{"14/s", 4, 3},
			{"100/s", 1, 1},
			{"3/s", 7, 2},
			{"1000/s", 1, 1},
			{"7/m", 1, 1},
			{"999983/s", 3, 2},
			{"unlimited", 1, 5},
		} {
			s := spec(fmt.Sprintf("g.q%d", i), tt.rate, func(s *queue.Spec) { s.Burst = tt.burst })
			r.put(s)
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			var list []queue.Job
			for _, id := range numbered("j", 120) {
				j := job(s.Name, id)
				j.Cost = 1 + rnd.Int64N(tt.cost)
				list = append(list, j)
			}
			r.acceptJobs(list...)
			r.follow(mirrorOf(s), s.Name, len(list))
		}
	}},
	{"14/s neither drifts nor gains", func(r *rig) {
		q := r.queue("q", "14/s")
		r.accept(q, numbered("j", 1+14*60)...)
		var first, last leaky.Instant
		n := 0
		for n < 1+14*60 {
			res := r.reserveAs("client", q, 100)
			for _, v := range res.Jobs {
				if n++; n == 1 {
					first = r.departure(v)
				}
				last = r.departure(v)
			}
			r.deliver(res.Jobs...)
			r.clock.Advance(max(res.Next, time.Millisecond))
		}
		if took := last.Sub(first); took != time.Minute {
			r.Errorf("60 x 14 departures after the first took %v", took)
		}
	}},
	{"nothing is granted beyond the horizon", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		r.deliver(r.grant(q, 9, "a")...)
		r.clock.Advance(50*time.Millisecond - time.Microsecond)
		r.grant(q, 9)
		r.clock.Advance(time.Microsecond)
		if v := r.grant(q, 9, "b"); v[0].In != queue.Horizon {
			r.Errorf("departs in %v", v[0].In)
		}
	}},
	{"idleness earns a burst and no more", func(r *rig) {
		s := spec("q", "10/s", func(s *queue.Spec) { s.Burst = 3 })
		r.put(s)
		m := mirrorOf(s)
		for range 3 {
			r.clock.Advance(time.Hour)
			r.accept(s.Name, numbered(fmt.Sprint("j", r.clock.Now()), 5)...)
			got := r.reserve(s.Name, 9)
			if len(got) != 3 {
				r.Fatalf("%d left at once after an hour's rest, the burst is 3", len(got))
			}
			r.departs(m, got, true)
			r.deliver(got...)
			r.follow(m, s.Name, 2)
		}
	}},
	{"lateness earns nothing either", func(r *rig) {
		s := spec("q", "10/s")
		r.put(s)
		m := mirrorOf(s)
		r.accept(s.Name, numbered("j", 50)...)
		for range 10 {
			got := r.reserve(s.Name, 9)
			r.departs(m, got, true)
			r.deliver(got...)
			r.clock.Advance(370 * time.Millisecond)
		}
		if i := r.info(s.Name); i.Delivered != 10 {
			r.Errorf("%d left in ten visits, each later than an interval", i.Delivered)
		}
	}},
	{"a changed rate or burst applies to the backlog at once", func(r *rig) {
		s := spec("q", "1/h")
		r.put(s)
		m := mirrorOf(s)
		r.accept(s.Name, numbered("j", 400)...)
		left := 0
		for i, step := range []struct {
			rate  string
			burst int64
		}{
			{"1/h", 1},
			{"10/s", 1},
			{"3/s", 1},
			{"3/s", 5},
			{"100/s", 5},
			{"100/s", 1},
			{"1/m", 1},
			{"14/s", 2},
			{"unlimited", 1},
			{"20/s", 3},
			{"999983/s", 1},
		} {
			s = spec(s.Name, step.rate, func(s *queue.Spec) { s.Burst = step.burst })
			r.put(s)
			m.change(s, r.clock.Now())
			for range 8 {
				got := r.reserve(s.Name, 3)
				r.departs(m, got, len(got) < 3)
				r.deliver(got...)
				left += len(got)
				r.clock.Advance(time.Duration(17+i) * time.Millisecond)
			}
		}
		if left < 60 {
			r.Errorf("only %d left", left)
		}
	}},
	{"a raised rate helps at once", func(r *rig) {
		q := r.queue("q", "1/h")
		r.accept(q, "a", "b", "c")
		r.deliver(r.grant(q, 9, "a")...)
		r.clock.Advance(time.Second)
		r.grant(q, 9)
		r.queue(q, "10/s")
		v := r.grant(q, 9, "b")
		if v[0].In > 0 {
			r.Errorf("a second after the last departure, at 10/s now, it departs in %v", v[0].In)
		}
	}},
	{"a lowered rate never causes a burst", func(r *rig) {
		q := r.queue("q", "100/s")
		r.accept(q, numbered("j", 50)...)
		v := r.reserve(q, 50) // six: one now and five up to the horizon
		last := r.departure(v[len(v)-1])
		r.queue(q, "1/s")
		r.clock.Set(last)
		r.grant(q, 9)
		r.clock.Set(last.Add(950*time.Millisecond - time.Microsecond))
		r.grant(q, 9)
		r.clock.Set(last.Add(950 * time.Millisecond))
		if w := r.grant(q, 9, "j00007"); r.departure(w[0]) != last.Add(time.Second) {
			r.Errorf("departs %v after the last one", r.departure(w[0]).Sub(last))
		}
	}},
	{"while paused, nothing departs and no slots are saved up", func(r *rig) {
		s := spec("q", "10/s")
		r.put(s)
		m := mirrorOf(s)
		r.accept(s.Name, numbered("j", 30)...)
		got := r.reserve(s.Name, 9)
		r.departs(m, got, true)
		r.check(r.e.Pause(r.ctx, s.Name, queue.Pause{Reason: "maintenance"}))
		for range 5 {
			r.clock.Advance(12 * time.Minute)
			r.grant(s.Name, 9)
		}
		r.accept(s.Name, "later")
		r.check(r.e.Resume(r.ctx, s.Name))
		res := r.reserveAs("client", s.Name, 9)
		if len(res.Lost) != 0 {
			r.Errorf("slots of a paused queue are not lost: %v", res.Lost)
		}
		// The first job's lease ran out in that hour; the job keeps its turn.
		r.sameIDs(res.Jobs, "j00001")
		r.departs(m, res.Jobs, true)
		r.deliver(res.Jobs...)
		r.follow(m, s.Name, 30)
	}},
	{"a clock that leaps an hour ahead causes no burst", func(r *rig) {
		s := spec("q", "10/s", func(s *queue.Spec) { s.Lease = unit.Duration(24 * time.Hour) })
		r.put(s)
		m := mirrorOf(s)
		r.accept(s.Name, numbered("j", 20)...)
		for range 3 {
			got := r.reserve(s.Name, 9)
			r.departs(m, got, true)
			r.deliver(got...)
			r.clock.Advance(time.Hour)
		}
		r.follow(m, s.Name, 17)
	}},
	{"when the clock is set back an hour, the engine's clock carries on", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b", "c", "d")
		r.deliver(r.grant(q, 9, "a")...)
		r.clock.Advance(-time.Hour)
		r.grant(q, 9) // the engine notices
		r.clock.Advance(50 * time.Millisecond)
		v := r.grant(q, 9, "b")
		if v[0].In != queue.Horizon {
			r.Errorf("departs in %v, want one interval after the last", v[0].In)
		}
		r.clock.Advance(30 * time.Second)
		r.grant(q, 9, "c") // and the lease of b is still valid
		r.clock.Advance(time.Second)
		r.grant(q, 9, "b")
	}},
	{"granted departures keep their distance whatever happens to the queue", func(r *rig) {
		r.scramble(rand.New(rand.NewPCG(2026, 9)))
	}},
}

// scramble runs all operations on one queue in random order and compares each grant with the mirror.
func (r *rig) scramble(rnd *rand.Rand) {
	r.Helper()
	s := &scrambled{rig: r, rnd: rnd, last: -1}
	s.spec = s.random()
	r.put(s.spec)
	s.mirror = mirrorOf(s.spec)
	for range 1500 {
		s.step()
	}
	if i := r.info(s.spec.Name); i.Delivered < 50 {
		r.Errorf("%d deliveries are too few to say anything", i.Delivered)
	}
}

// scrambled is the queue of scramble.
type scrambled struct {
	*rig
	rnd    *rand.Rand
	spec   queue.Spec
	mirror *bucketMirror
	held   []queue.Reservation // in order of their grants
	last   int                 // index in held of the last departure granted, -1 if it is no longer held
	paused bool
	jobs   int
}

func (s *scrambled) random() queue.Spec {
	rates := []string{"14/s", "3/s", "100/s", "1000/s", "7/m", "40/s", "unlimited"}
	return spec("q", rates[s.rnd.IntN(len(rates))], func(q *queue.Spec) {
		q.Burst = 1 + s.rnd.Int64N(4)
		q.Lease = unit.Duration(5 * time.Second)
	})
}

func (s *scrambled) step() {
	s.Helper()
	switch k := s.rnd.IntN(20); {
	case k < 5:
		for range 1 + s.rnd.IntN(4) {
			j := job(s.spec.Name, fmt.Sprintf("j%05d", s.jobs))
			j.Cost = 1 + s.rnd.Int64N(3)
			s.acceptJobs(j)
			s.jobs++
		}
	case k < 11:
		s.reserveSome()
	case k < 14 && len(s.held) > 0:
		s.settleOne(s.rnd.IntN(len(s.held)))
	case k == 14:
		s.spec = s.random()
		s.put(s.spec)
		s.mirror.change(s.spec, s.clock.Now())
	case k == 15:
		s.paused = !s.paused
		if s.paused {
			s.check(s.e.Pause(s.ctx, s.spec.Name, queue.Pause{}))
		} else {
			s.check(s.e.Resume(s.ctx, s.spec.Name))
		}
	case k == 16:
		s.clock.Advance(time.Duration(s.rnd.IntN(2_000_000)) * time.Microsecond)
	default:
		s.clock.Advance(time.Duration(s.rnd.IntN(60_000)) * time.Microsecond)
	}
}

func (s *scrambled) reserveSome() {
	s.Helper()
	most := 1 + s.rnd.IntN(6)
	i := s.info(s.spec.Name)
	got := s.reserve(s.spec.Name, most)
	if s.paused && len(got) > 0 {
		s.Fatal("a paused queue granted jobs")
	}
	s.departs(s.mirror, got, !s.paused && len(got) < most && i.Waiting > int64(len(got)))
	if len(got) > 0 {
		s.held = append(s.held, got...)
		s.last = len(s.held) - 1
	}
	for len(s.held) > 0 && s.info(s.spec.Name).Leased < int64(len(s.held)) { // leases that ran out
		s.held = s.held[1:]
		s.last--
	}
}

func (s *scrambled) settleOne(i int) {
	s.Helper()
	verdict := []queue.Verdict{queue.Deliver, queue.Deliver, queue.Fail, queue.Release}[s.rnd.IntN(4)]
	if s.settle(settlement(verdict, s.held[i]))[0].Stale {
		s.Fatalf("%v of %s is stale", verdict, s.held[i].ID)
	}
	if verdict == queue.Release && i == s.last {
		s.mirror.p.GiveBack(&s.mirror.b)
	}
	s.held = append(s.held[:i:i], s.held[i+1:]...)
	switch {
	case i == s.last:
		s.last = -1
	case i < s.last:
		s.last--
	}
}
