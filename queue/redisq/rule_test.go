package redisq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

func meterRule(name string) rules.Rule {
	return rules.Rule{
		Name: name, Algorithm: leaky.AlgorithmMeter,
		Bound: rules.Bound{Rate: leaky.PerSecond(5), Burst: 10},
	}
}

func TestRules(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 2})
	put := func(r rules.Rule, expect int64) queue.PutResult {
		t.Helper()
		p, err := v.e.PutRule(v.ctx, r, expect)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := put(meterRule("mail.user"), 0)
	if !first.Created || !first.Changed {
		t.Errorf("put %+v", first)
	}
	if again := put(meterRule("mail.user"), queue.AnyRevision); again.Changed || again.Revision != first.Revision {
		t.Errorf("put again %+v", again)
	}
	if _, err := v.e.PutRule(v.ctx, rules.Rule{
		Name: "mail.user", Algorithm: leaky.AlgorithmGap,
		Bound: rules.Bound{Period: unit.Duration(time.Second)},
	}, 0); !errors.Is(err, queue.ErrRevision) {
		t.Errorf("put of what exists: %v", err)
	}
	for _, name := range []string{"a", "b", "mail.route"} {
		put(meterRule(name), queue.AnyRevision)
	}
	all, err := v.e.ListRules(v.ctx, "a", 2)
	if err != nil || len(all) != 2 || all[0].Name != "b" || all[1].Name != "mail.route" {
		t.Errorf("listed %+v, %v", all, err)
	}
	if i, err := v.e.Rule(v.ctx, "mail.user"); err != nil || i.Revision != first.Revision || i.Burst != 10 {
		t.Errorf("rule %+v, %v", i, err)
	}
	if err := v.e.DeleteRule(v.ctx, "mail.user", first.Revision+100); !errors.Is(err, queue.ErrRevision) {
		t.Errorf("deleted at another revision: %v", err)
	}
	if err := v.e.DeleteRule(v.ctx, "mail.user", first.Revision); err != nil {
		t.Error(err)
	}
	if _, err := v.e.Rule(v.ctx, "mail.user"); !errors.Is(err, rules.ErrUnknown) {
		t.Errorf("rule that was deleted: %v", err)
	}
	if err := v.e.ResetRule(v.ctx, "mail.user"); !errors.Is(err, rules.ErrUnknown) {
		t.Errorf("reset of a rule that was deleted: %v", err)
	}

	spec := queue.Spec{Name: "mail.otp", Rate: leaky.PerSecond(1), Rules: []string{"a", "mail.nobody"}}
	var at *invalid.Error
	if _, err := v.e.Put(v.ctx, spec, 0); !errors.As(err, &at) || at.Field != "rules.1" {
		t.Errorf("put of a queue with a rule that is not there: %v", err)
	}
	spec.Rules[1] = "mail.route"
	if _, err := v.e.Put(v.ctx, spec, 0); err != nil {
		t.Error(err)
	}
	if i, err := v.e.Rule(v.ctx, "mail.route"); err != nil || len(i.Queues) != 1 || i.Queues[0] != "mail.otp" {
		t.Errorf("asked by %v, %v", i.Queues, err)
	}
	if err := v.e.DeleteRule(v.ctx, "mail.route", queue.AnyRevision); !errors.Is(err, rules.ErrInUse) {
		t.Errorf("deleted in use: %v", err)
	}
	places := rules.Rule{
		Name: "mail.route", Algorithm: leaky.AlgorithmConcurrency,
		Bound: rules.Bound{Limit: 1, TTL: unit.Duration(time.Second)},
	}
	if _, err := v.e.PutRule(v.ctx, places, queue.AnyRevision); !errors.As(err, &at) || at.Field != "algorithm" {
		t.Errorf("made concurrency in use: %v", err)
	}
	if n, err := v.e.Attend(v.ctx, "one"); n != 1 || err != nil {
		t.Errorf("attend: %d, %v", n, err)
	}
	if n, err := v.e.Attend(v.ctx, "two"); n != 2 || err != nil {
		t.Errorf("attend: %d, %v", n, err)
	}
}

// Redis counts the life of a key from the beginning of a script. The script reads the clock later, on a busy machine by
// tens of milliseconds. A tally that went at its end by Redis' count would be forgotten too early.
func TestTalliesOutlastTheirEnd(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	e, err := redisq.OpenClient(t.Context(), s.Client(), redisq.Options{
		Init: true, Partitions: 1, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	ttls := func() map[string]time.Duration {
		all := map[string]time.Duration{}
		keys, err := s.Client().Keys(t.Context(), "*").Result()
		for _, key := range keys {
			if all[key], err = s.Client().PTTL(t.Context(), key).Result(); err != nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for _, a := range rules.Algorithms() {
		r := rules.Rule{Name: string(a), Algorithm: a, Key: "{lane}"}
		for _, number := range rules.Numbers(a) {
			switch number {
			case "rate":
				r.Rate = leaky.PerSecond(1)
			case "burst":
				r.Burst = 1
			case "limit":
				r.Limit = 1
			case "period":
				r.Period = unit.Duration(time.Minute)
			case "ttl":
				r.TTL = unit.Duration(time.Minute)
			}
		}
		if a == leaky.AlgorithmBudget {
			r.Unit = "tokens"
		}
		if _, err := e.PutRule(t.Context(), r, queue.AnyRevision); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		before := ttls()
		taken, err := e.Take(t.Context(), r.Name, []rules.Take{{Key: "k", Cost: 1, Unit: r.Unit}})
		if err != nil || !taken[0].Allowed {
			t.Fatalf("%s: %+v, %v", a, taken, err)
		}
		kept := 0
		for key, ttl := range ttls() {
			if _, old := before[key]; old || ttl < 0 { // -1: for ever
				continue
			}
			if kept++; ttl < taken[0].ResetAfter+500*time.Millisecond {
				t.Errorf("%s: %s goes in %v, and is needed for %v", a, key, ttl, taken[0].ResetAfter)
			}
		}
		if kept == 0 {
			t.Errorf("%s keeps nothing", a)
		}
	}
}
