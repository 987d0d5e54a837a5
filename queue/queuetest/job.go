package queuetest

import (
	"maps"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// seen is a JobInfo with instants instead of times; an unset time is 0.
type seen struct {
	state                queue.State
	position             int64
	eta                  leaky.Instant
	exact                bool
	cost                 int64
	attempts             int
	appended, due, ended leaky.Instant
	reason               string
}

func instantOf(t time.Time) leaky.Instant {
	if t.IsZero() {
		return 0
	}
	return leaky.Instant(t.UnixMicro())
}

func (r *rig) checkJob(queueName, id string, want seen) {
	r.Helper()
	i := r.job(queueName, id)
	got := seen{
		i.State, i.Position, instantOf(i.ETA.At), i.ETA.Exact, i.Cost, i.Attempts, instantOf(i.AppendedAt),
		instantOf(i.DueAt), instantOf(i.EndedAt), i.Reason,
	}
	if got != want {
		r.Errorf("job %s:\n got %+v\nwant %+v", id, got, want)
	}
}

var jobRules = []rule{
	{"a job is visible in every state", func(r *rig) {
		const ms = time.Millisecond
		q := r.queue("q", "20/s", leased(10*time.Second, 3), remember(time.Minute))
		t0 := r.clock.Now()
		costly := job(q, "a")
		costly.Cost = 2
		r.acceptJobs(costly)
		r.clock.Advance(ms)
		r.accept(q, "b")
		t1 := r.clock.Now()
		r.checkJob(q, "a", seen{state: queue.Waiting, position: 1, eta: t1, exact: true, cost: 2, appended: t0})
		r.checkJob(q, "b", seen{
			state: queue.Waiting, position: 2, eta: t1.Add(100 * ms), exact: true, cost: 1, appended: t1,
		})

		a := r.grant(q, 9, "a")[0]
		r.checkJob(q, "a", seen{state: queue.Leased, cost: 2, appended: t0, due: t1})
		r.checkJob(q, "b", seen{state: queue.Waiting, position: 1, eta: t1.Add(100 * ms), cost: 1, appended: t1})
		r.clock.Advance(70 * ms)
		b := r.grant(q, 9, "b")[0]
		r.checkJob(q, "b", seen{state: queue.Leased, cost: 1, appended: t1, due: t1.Add(100 * ms)})

		r.fail(time.Second, a)
		due := r.clock.Now().Add(time.Second)
		r.checkJob(q, "a", seen{
			state: queue.Scheduled, eta: due, cost: 2, attempts: 1, appended: t0, due: due, reason: "it failed",
		})
		r.deliver(b)
		r.checkJob(q, "b", seen{state: queue.Delivered, cost: 1, attempts: 1, appended: t1, ended: r.clock.Now()})

		r.clock.Set(due)
		a = r.grant(q, 9, "a")[0]
		r.checkJob(q, "a", seen{state: queue.Leased, cost: 2, attempts: 1, appended: t0, due: due, reason: "it failed"})
		s := settlement(queue.Bury, a)
		s.Reason = "no"
		r.settled(queue.Dead, s)
		r.checkJob(q, "a", seen{state: queue.Dead, cost: 2, attempts: 2, appended: t0, ended: due, reason: "no"})

		r.clock.Advance(time.Minute - ms)
		r.state(queue.Dead, q, "a")
		r.clock.Advance(2 * ms)
		_, err := r.e.Job(r.ctx, q, "a")
		r.refuses(err, queue.ErrUnknownJob)
		_, err = r.e.Job(r.ctx, q, "b")
		r.refuses(err, queue.ErrUnknownJob)
	}},
	{"a job shows its payload for as long as that is kept", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		mail := job(q, "a")
		mail.Payload, mail.ContentType, mail.Headers = []byte("\x00\xff{} of 1 << 60"), "application/octet-stream",
			map[string]string{"x-tenant": "7"}
		plain := job(q, "b")
		plain.Payload, plain.Lane = []byte(`{"to": 12345678901234567890}`), "example.org"
		plain.NotBefore = r.clock.Now().Time().Add(time.Second)
		r.acceptJobs(mail)
		r.append(plain)
		shows := func(id string, want queue.Job) {
			r.Helper()
			i := r.job(q, id)
			want.Normalize()
			if string(i.Payload) != string(want.Payload) || i.ContentType != want.ContentType ||
				!maps.Equal(i.Headers, want.Headers) {
				r.Errorf("%s, %v, shows %q, %q, %v", id, i.State, i.Payload, i.ContentType, i.Headers)
			}
		}
		shows("a", mail)
		shows("b", plain)
		a := r.grant(q, 9, "a")[0]
		shows("a", mail)
		s := settlement(queue.Bury, a)
		s.Reason = "no"
		r.settled(queue.Dead, s)
		shows("a", mail)
		r.clock.Advance(time.Second)
		r.deliver(r.grant(q, 9, "b")[0])
		if i := r.job(q, "b"); i.Payload != nil || i.ContentType != "" {
			r.Errorf("a delivered job shows %q, %q", i.Payload, i.ContentType)
		}
		r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, true))
		shows("a", mail)
	}},
	{"a scheduled job shows when the pace delays it further", func(r *rig) {
		q := r.queue("q", "1/m")
		r.accept(q, "a")
		t0 := r.clock.Now()
		r.fail(time.Second, r.grant(q, 9, "a")...)
		if i := r.job(q, "a"); instantOf(i.ETA.At) != t0.Add(time.Minute) ||
			instantOf(i.DueAt) != t0.Add(time.Second) || i.ETA.Exact {
			r.Errorf("got %+v", i)
		}
	}},
	{"a released job waits without a trace", func(r *rig) {
		q := r.queue("q", "1/m")
		r.accept(q, "a")
		t0 := r.clock.Now()
		r.release(r.grant(q, 9, "a")...)
		r.checkJob(q, "a", seen{state: queue.Waiting, position: 1, eta: t0, exact: true, cost: 1, appended: t0})
	}},
	{"a job delivered after failures keeps no reason", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		r.fail(0, r.grant(q, 9, "a")...)
		r.deliver(r.grant(q, 9, "a")...)
		if i := r.job(q, "a"); i.Reason != "" || i.Attempts != 2 {
			r.Errorf("got %+v", i)
		}
	}},
	{"positions follow turns, not arrivals", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 100)...)
		v := r.reserve(q, 50)
		r.release(v[10], v[30], v[20])
		for id, want := range map[string]int64{"j00011": 1, "j00021": 2, "j00031": 3, "j00051": 4, "j00100": 53} {
			if i := r.job(q, id); i.Position != want {
				r.Errorf("%s is at %d, want %d", id, i.Position, want)
			}
		}
	}},
	{"unknown jobs are not found", func(r *rig) {
		q := r.queue("q", "unlimited")
		for _, id := range []string{"a", "", "a b", "\x00", strings.Repeat("a", 1<<20)} {
			_, err := r.e.Job(r.ctx, q, id)
			r.refuses(err, queue.ErrUnknownJob)
		}
	}},
}

var traceRules = []rule{
	{
		"a job keeps its trace context on the overflow, through retries, when dead and when replayed",
		func(r *rig) {
			s := r.overflowOf("q", "unlimited", withCapacity(1), leased(time.Minute, 2))
			j := job(s.q, "a")
			j.Headers = map[string]string{
				"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "vendor=a:b,other=c",
			}
			carries := func(when string, got queue.Job) {
				r.Helper()
				if !maps.Equal(got.Headers, j.Headers) {
					r.Errorf("%s it has %v", when, got.Headers)
				}
			}
			s.full()
			s.asideJobs(j)
			r.drain(s.q)
			s.takes(readmit.Returned)
			v := r.grant(s.q, 1, "a")
			carries("back from the overflow", v[0].Job)
			r.fail(0, v...)
			v = r.grant(s.q, 1, "a")
			carries("tried again", v[0].Job)
			r.settled(queue.Dead, settlement(queue.Bury, v[0]))
			if i := r.job(s.q, "a"); !maps.Equal(i.Headers, j.Headers) {
				r.Errorf("dead it shows %v", i.Headers)
			}
			r.replays(s.q, []string{"a"}, queue.Replayed)
			carries("replayed", r.drain(s.q)[0].Job)
		},
	},
}

// waitsFor checks why jobs have not left.
func (r *rig) waitsFor(want queue.Why, queueName string, ids ...string) {
	r.Helper()
	for _, id := range ids {
		got := r.job(queueName, id).Why
		if got.By != want.By || instantOf(got.Until) != instantOf(want.Until) || got.Reason != want.Reason ||
			got.Who != want.Who || got.Note != want.Note || got.Queue != want.Queue {
			r.Errorf("%s waits for %+v, want %+v", id, got, want)
		}
	}
}

// causeOnly returns a reason with only a cause.
func causeOnly(by cause.Cause) queue.Why { return queue.Why{By: by} }

// lasting returns a reason that ends at an instant.
func lasting(by cause.Cause, at leaky.Instant, reason string) queue.Why {
	return queue.Why{By: by, Until: at.Time(), Reason: reason}
}

var whyRules = []rule{
	{"the rate, or only a drainer", func(r *rig) {
		q := r.queue("q", "10/s", func(s *queue.Spec) { s.Burst = 2 })
		r.accept(q, "a", "b", "c")
		r.waitsFor(causeOnly(cause.Drainer), q, "a", "b")
		r.waitsFor(causeOnly(cause.Rate), q, "c")
		v := r.grant(q, 9, "a", "b")
		r.waitsFor(queue.Why{}, q, "a", "b")
		r.waitsFor(causeOnly(cause.Rate), q, "c")
		r.deliver(v...)
		r.waitsFor(queue.Why{}, q, "a")
		r.clock.Advance(100 * time.Millisecond)
		r.waitsFor(causeOnly(cause.Drainer), q, "c")
		u := r.queue("g.u", "unlimited")
		r.accept(u, numbered("j", 9)...)
		r.waitsFor(causeOnly(cause.Drainer), u, "j00001", "j00009")
	}},
	{"ended jobs wait for nothing", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 1))
		r.accept(q, "a", "b", "c")
		v := r.grant(q, 2, "a", "b")
		r.settled(queue.Dead, settlement(queue.Bury, v[0]))
		r.deliver(v[1])
		r.cancels(queue.Cancelled, q, "c")
		r.waitsFor(queue.Why{}, q, "a", "b", "c")
	}},
	{"the lane's rate, where it decides", func(r *rig) {
		q := r.putWithLanes(
			"q", "10/s", "x1 x2 x3 y1 k1", everyLane(queue.LaneRule{Rate: leaky.PerSecond(5)}),
			except(laneY, queue.LaneRule{}),
		)
		r.waitsFor(causeOnly(cause.Rate), q, "x1", "y1", "k1") // they take turns
		r.waitsFor(causeOnly(cause.Rate), q, "x2", "x3")
		r.deliver(r.grant(q, 1, "k1")...)
		for range 2 {
			r.clock.Advance(100 * time.Millisecond)
			r.deliver(r.reserve(q, 1)...) // x1 and y1
		}
		r.waitsFor(causeOnly(cause.LaneRate), q, "x3")
		r.clock.Advance(time.Second)
		r.waitsFor(causeOnly(cause.Drainer), q, "x2")
		r.waitsFor(causeOnly(cause.LaneRate), q, "x3")
	}},
	{"jobs in flight", func(r *rig) {
		q := r.putWithLanes(
			"q", "unlimited", "x1 x2 x3 y1 k1 k2 k3", everyLane(queue.LaneRule{MaxInFlight: 2}),
			func(s *queue.Spec) { s.MaxInFlight = 4 },
		)
		v := r.grant(q, 9, "k1", "x1", "y1", "k2")
		r.waitsFor(causeOnly(cause.MaxInFlight), q, "x2", "x3", "k3")
		r.deliver(v[0])
		v = append(v, r.grant(q, 9, "x2")...)
		r.waitsFor(causeOnly(cause.LaneMaxInFlight), q, "x3")
		r.waitsFor(causeOnly(cause.MaxInFlight), q, "k3")
		r.deliver(v[2], v[3])
		r.waitsFor(causeOnly(cause.Drainer), q, "k3")
	}},
	{"its lane's limit before the queue's", func(r *rig) {
		q := r.putWithLanes(
			"q", "unlimited", "x1 x2 y1", everyLane(queue.LaneRule{MaxInFlight: 1}),
			func(s *queue.Spec) { s.MaxInFlight = 1 },
		)
		v := r.grant(q, 9, "x1")
		r.waitsFor(causeOnly(cause.LaneMaxInFlight), q, "x2")
		r.waitsFor(causeOnly(cause.MaxInFlight), q, "y1")
		r.deliver(v...)
		r.waitsFor(causeOnly(cause.Drainer), q, "x2", "y1")
	}},
	{"the order", func(r *rig) {
		q := r.putWithLanes("q", "unlimited", "k1 k2 x1 x2 y1", ordered)
		v := r.grant(q, 9, "k1", "x1", "y1")
		r.waitsFor(causeOnly(cause.Ordered), q, "k2", "x2")
		r.deliver(v[0])
		r.waitsFor(causeOnly(cause.Drainer), q, "k2")
		r.fail(5*time.Second, v[1])
		due := r.clock.Now().Add(5 * time.Second)
		r.waitsFor(lasting(cause.BackingOff, due, "it failed"), q, "x1")
		r.waitsFor(causeOnly(cause.Ordered), q, "x2") // for the job that backs off
		r.clock.Set(due)
		r.waitsFor(causeOnly(cause.Drainer), q, "x1") // not for itself
		r.grant(q, 1, "k2")
	}},
	{"a pause, with its reason, before all but jobs that are not due", func(r *rig) {
		q := r.queue("q", "1/h", func(s *queue.Spec) { s.MaxInFlight = 1 })
		r.accept(q, "a", "b")
		v := r.grant(q, 9, "a")
		later := job(q, "c")
		later.NotBefore = r.clock.Now().Add(time.Minute).Time()
		r.append(later)
		r.waitsFor(causeOnly(cause.MaxInFlight), q, "b")
		r.waitsFor(queue.Why{By: cause.Scheduled, Until: later.NotBefore}, q, "c")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Reason: "the provider is down"}))
		paused := queue.Why{By: cause.Paused, Reason: "the provider is down"}
		r.waitsFor(paused, q, "b")
		r.waitsFor(queue.Why{By: cause.Scheduled, Until: later.NotBefore}, q, "c")
		r.fail(2*time.Minute, v...)
		due := r.clock.Now().Add(2 * time.Minute)
		r.waitsFor(lasting(cause.BackingOff, due, "it failed"), q, "a")
		r.clock.Set(due)
		r.waitsFor(paused, q, "a", "b", "c")
		r.check(r.e.Resume(r.ctx, q))
		r.waitsFor(causeOnly(cause.Rate), q, "a", "b", "c")
	}},
	{"the overflow, and its hours", func(r *rig) {
		s := r.overflowOf("q", "10/s", withCapacity(2))
		s.full("a", "b")
		r.waitsFor(causeOnly(cause.Deferred), s.q, "a", "b")
		now := r.clock.Now().Time().UTC()
		opens := now.Truncate(time.Minute).Add(3 * time.Hour)
		night := func(spec *queue.Spec) {
			spec.Deferred.ReadmitBetween = queue.ReadmitIn(
				opens.Format("15:04") + "-" + opens.Add(time.Hour).Format("15:04"),
			)
		}
		r.put(spec(s.q, "10/s", withCapacity(2), defers, night))
		r.waitsFor(queue.Why{By: cause.DeferredHours, Until: opens}, s.q, "a", "b")
		r.clock.Set(instantOf(opens))
		r.waitsFor(causeOnly(cause.Deferred), s.q, "a")
		r.cancels(queue.Cancelled, s.q, "b")
		r.waitsFor(queue.Why{}, s.q, "b")
	}},
}
