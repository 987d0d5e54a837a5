package admission

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// hour is a window in which nothing comes back during a test.
func hour(name, away string, limit int64) rules.Rule {
	r := window(name, away, limit)
	r.Period = unit.Duration(time.Hour)
	return r
}

// line is a store on Redis, and a line to it that can be bad.
type line struct {
	*redisq.Engine
	server *redistest.Server
	proxy  *faultproxy.Proxy
}

func newLine(t *testing.T, list ...rules.Rule) *line {
	t.Helper()
	s := redistest.New(t, redistest.Options{})
	e, err := redisq.OpenClient(t.Context(), s.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	for _, r := range list {
		r.Normalize()
		if _, err := e.PutRule(t.Context(), r, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	return &line{e, s, faultproxy.New(t, s.Addr())}
}

// process is an engine of its own over the line, with an Admission that runs. It takes Redis to be away when it is told
// so, and not for being slow: the machine may be busy.
func (l *line) process(t *testing.T) (*Admission, *redisq.Engine, *lines) {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: l.proxy.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: redistest.Patience,
	})
	e, err := redisq.OpenClient(t.Context(), client, redisq.Options{Patience: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = e.Close(), client.Close() })
	a, _, log := beginPatient(t, e, redistest.Patience)
	return a, e, log
}

// digested matches what is asked under a key.
func digested(key string) faultproxy.Match {
	d := queue.DigestLane(key)
	return faultproxy.Script(string(d[:]))
}

// Three processes whose Redis cannot be reached together allow exactly what the rule does, and continue with Redis's
// tallies when it is back.
func TestSharesOnRedis(t *testing.T) {
	l := newLine(
		t, hour("api.calls", rules.AwayShare, 10), hour("mail.calls", rules.AwayOpen, 1),
		hour("sms.calls", rules.AwayClosed, 10),
	)
	var all []*Admission
	for range 3 {
		a, _, _ := l.process(t)
		for _, rule := range []string{"api.calls", "mail.calls", "sms.calls"} {
			if _, err := a.Take(t.Context(), rule, []rules.Take{{Op: rules.TakePeek, Key: "k"}}); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, a)
	}
	for _, a := range all {
		await.Until(t, "three are known", func() bool { return a.attendOnce(t.Context()) && a.processes.Load() == 3 })
	}
	passes(t, all[0], "api.calls", "k", 4)
	l.proxy.Refuse()
	l.proxy.Cut()
	for rule, want := range map[string]int64{"api.calls": 9, "mail.calls": 60, "sms.calls": 0} {
		var allowed atomic.Int64
		var asking sync.WaitGroup
		for _, a := range all {
			for range 4 {
				asking.Go(func() {
					for range 5 {
						taken, err := a.Take(t.Context(), rule, []rules.Take{{Key: "k"}})
						if err != nil || taken[0].Err != nil {
							t.Error(err, taken)
							return
						}
						if taken[0].Allowed {
							allowed.Add(1)
						}
					}
				})
			}
		}
		asking.Wait()
		if allowed.Load() != want {
			t.Errorf("%s: %d passed in three processes, want %d", rule, allowed.Load(), want)
		}
	}
	l.proxy.Admit()
	for _, a := range all {
		await.Until(t, "the store decides again", func() bool { return a.outages.count.Load() == 0 })
	}
	if n := passes(t, all[1], "api.calls", "k", 10) + passes(t, all[2], "api.calls", "k", 10); n != 6 {
		t.Errorf("%d passed of the 6 that the store has left", n)
	}
}

// A take whose answer is lost is charged once, not repeated, and decided by the rule.
func TestLostAnswersOnRedis(t *testing.T) {
	l := newLine(t, hour("api.calls", rules.AwayOpen, 10))
	a, _, log := l.process(t)
	passes(t, a, "api.calls", "k", 1)
	lost := l.proxy.SwallowNext(digested("k"))
	if n := passes(t, a, "api.calls", "k", 1); n != 1 {
		t.Error("it was not let through")
	}
	if err := lost.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := left(t, l, "api.calls", "k"); n != 8 {
		t.Errorf("%d left of 10 after two takes", n)
	}
	if n := log.count("the rule's away applies"); n != 1 {
		t.Errorf("%d lines of the log:\n%s", n, log)
	}
	await.Until(t, "the store decides again", func() bool { return a.outages.count.Load() == 0 })
	if n := passes(t, a, "api.calls", "k", 10); n != 8 {
		t.Errorf("%d passed of 8", n)
	}
}

// Callers with less time than it takes to notice that Redis does not answer leave that to later callers.
func TestLittleTimeOnRedis(t *testing.T) {
	l := newLine(t, hour("api.calls", rules.AwayOpen, 10))
	client := redis.NewClient(&redis.Options{Addr: l.proxy.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	e, err := redisq.OpenClient(t.Context(), client, redisq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = e.Close(), client.Close() })
	a := New(e, Options{}) // nobody runs it, so nobody looks behind their backs
	passes(t, a, "api.calls", "k", 1)
	l.proxy.Delay(func(faultproxy.Command) bool { return true }, time.Hour)
	ctx, cancel := contextOf(t, DefaultPatience/2)
	defer cancel()
	if _, err := a.Take(ctx, "api.calls", []rules.Take{{Key: "k"}}); err == nil {
		t.Error("it was decided for who gave up")
	}
	await.Until(t, "it is known that the store is away", func() bool { return a.outages.has("api.calls") })
	passes(t, a, "api.calls", "k", 1)
	l.proxy.Clear()
	await.Until(t, "the store decides again", func() bool { return passes(t, a, "api.calls", "k", 1) == 0 })
}

// Takes of other groups' rules are given back when the queue refuses the job, even if answers are lost.
func TestTakeThenRefundOnRedis(t *testing.T) {
	l := newLine(t, hour("all.tenants", rules.AwayClosed, 10), hour("mail.own", rules.AwayClosed, 2))
	if _, err := l.Put(
		t.Context(),
		queue.Spec{Name: "mail", Rate: leaky.PerSecond(1), Capacity: 100, Rules: []string{"all.tenants", "mail.own"}}, 0,
	); err != nil {
		t.Fatal(err)
	}
	a, e, _ := l.process(t)
	p := NewAppender(a, e)
	var jobs []queue.Job
	for _, id := range []string{"1", "2", "3", "4", "1"} {
		jobs = append(jobs, job("mail", id, "acme"))
	}
	answers, err := p.Append(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []queue.AppendOutcome{
		queue.Accepted, queue.Accepted, queue.LimitReached, queue.LimitReached, queue.Duplicate,
	} {
		if answers[i].Outcome != want {
			t.Errorf("job %d: %v, %v; want %v", i, answers[i].Outcome, answers[i].Err, want)
		}
	}
	if said := answers[2].Rules; len(said) != 2 || said[0].Rule != "all.tenants" || !said[0].Allowed ||
		said[1].Rule != "mail.own" || said[1].Allowed {
		t.Errorf("%+v", said)
	}
	if n := left(t, l, "all.tenants", "acme"); n != 8 {
		t.Errorf("%d left of 10, 2 came in", n)
	}
	if n := left(t, l, "mail.own", "acme"); n != 0 {
		t.Errorf("%d left of 2, 2 came in", n)
	}
	// The answer to what is given back is lost: it is given back at most once.
	n := 0
	lost := l.proxy.SwallowNext(func(c faultproxy.Command) bool {
		if digested("acme")(c) {
			n++
		}
		return n == 3 // taken, appended, given back
	})
	if answers, err = p.Append(t.Context(), jobs[2:3]); err != nil || answers[0].Outcome != queue.LimitReached {
		t.Errorf("%+v, %v", answers, err)
	}
	if err := lost.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := left(t, l, "all.tenants", "acme"); n != 8 {
		t.Errorf("%d left of 10, 2 came in", n)
	}
}

// Many requests at once, in two processes: never more in the handler than the rule has places, and all places are free
// in the end.
func TestPlacesOnRedis(t *testing.T) {
	r := places(3, time.Minute)
	l := newLine(t, r)
	var inside, most, served atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		a, _, _ := l.process(t)
		h := Middleware(a, r.Name, OneKey(), MiddlewareOptions{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			n := inside.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			served.Add(1)
			inside.Add(-1)
		}))
		for range 16 {
			all.Go(func() {
				for range 20 {
					if w := request(h, ""); w.Code != http.StatusOK && w.Code != http.StatusTooManyRequests {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				}
			})
		}
	}
	all.Wait()
	if most.Load() > 3 || served.Load() == 0 {
		t.Errorf("%d at once, %d served", most.Load(), served.Load())
	}
	if n := left(t, l, r.Name, ""); n != 3 {
		t.Errorf("%d places are free of 3", n)
	}
}

// A full Redis decides nothing, and the outage does not end just because it can be read.
func TestFullRedis(t *testing.T) {
	l := newLine(t, hour("api.calls", rules.AwayOpen, 1))
	a, _, log := l.process(t)
	passes(t, a, "api.calls", "k", 1)
	client := l.server.Client()
	ctx := context.WithoutCancel(t.Context())
	if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); time.Since(begun) < 3*fullEvery; { // it is asked again and again meanwhile
		if n := passes(t, a, "api.calls", "k", 1); n != 1 {
			t.Fatal("an open rule refuses")
		}
	}
	if n := log.count("the rule's away applies"); n != 1 {
		t.Errorf("%d lines of the log:\n%s", n, log)
	}
	if err := client.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the store decides again", func() bool { return passes(t, a, "api.calls", "k", 1) == 0 })
}
