package queuetest

import (
	"maps"
	"strings"
	"time"

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
