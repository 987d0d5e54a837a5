package queuetest

import (
	"reflect"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

var rulesInUseRules = []rule{
	{"a rule shows the queues of its group that name it, and cannot be deleted meanwhile", func(r *rig) {
		r.limiter(countingRule("g", 9))
		r.limiter(countingRule("g.r", 9))
		r.askedBy("g.r")
		r.queue("g.b", "1/s", asks("g.r", "g"))
		r.queue("g", "1/s", asks("g.r"))
		r.queue("g.a", "1/s", asks("g.r"))
		r.queue("other", "1/s", asks("g.r"))
		r.askedBy("g.r", "g", "g.a", "g.b")
		r.askedBy("g", "g.b")
		r.refuses(r.e.DeleteRule(r.ctx, "g.r", queue.AnyRevision), rules.ErrInUse)
		r.refuses(r.e.DeleteRule(r.ctx, "g.r", r.ruleInfo("g.r").Revision), rules.ErrInUse)
		r.queue("g", "1/s")
		r.queue("g.b", "1/s", asks("g"))
		r.askedBy("g.r", "g.a")
		r.refuses(r.e.DeleteRule(r.ctx, "g.r", queue.AnyRevision), rules.ErrInUse)
		r.delete("g.a")
		r.askedBy("g.r")
		r.deleteRule("g.r")
		r.askedBy("g", "g.b")
	}},
	{"a queue cannot name a missing rule of its group", func(r *rig) {
		r.limiter(countingRule("g.r", 9))
		first := r.put(spec("g.q", "1/s", asks("g.r"))).Revision
		for field, asked := range map[string][]string{
			"rules.0": {"g.none"}, "rules.1": {"g.r", "g"}, "rules.2": {"g.r", "other.none", "g.none"},
		} {
			_, err := r.e.Put(r.ctx, spec("g.q", "1/s", asks(asked...)), queue.AnyRevision)
			r.refusesField(field, err)
			_, err = r.e.Put(r.ctx, spec("g.new", "1/s", asks(asked...)), queue.AnyRevision)
			r.refusesField(field, err)
		}
		if i := r.info("g.q"); i.Revision != first || !slices.Equal(i.Spec.Rules, []string{"g.r"}) {
			r.Errorf("got %+v", i)
		}
		_, err := r.e.Get(r.ctx, "g.new")
		r.refuses(err, queue.ErrUnknownQueue)
		r.queue("g.q", "1/s", asks("other.none", "none"))
		if i := r.info("g.q"); !slices.Equal(i.Spec.Rules, []string{"other.none", "none"}) {
			r.Errorf("got %+v", i.Spec.Rules)
		}
	}},
	{"a queue cannot name a rule of concurrency, and a named rule cannot become one", func(r *rig) {
		places := rules.Bound{Limit: 3, TTL: unit.Duration(time.Minute)}
		r.limiter(ruleOf("g.places", leaky.AlgorithmConcurrency, places))
		r.limiter(countingRule("g.r", 9))
		r.limiter(ruleOf("other.places", leaky.AlgorithmConcurrency, places))
		_, err := r.e.Put(r.ctx, spec("g.q", "1/s", asks("g.r", "g.places")), queue.AnyRevision)
		r.refusesField("rules.1", err)
		r.queue("g.q", "1/s", asks("g.r"))
		before := r.ruleInfo("g.r")
		_, err = r.e.PutRule(r.ctx, ruleOf("g.r", leaky.AlgorithmConcurrency, places), queue.AnyRevision)
		r.refusesField("algorithm", err)
		if i := r.ruleInfo("g.r"); !reflect.DeepEqual(i, before) {
			r.Errorf("got %+v", i)
		}
		r.queue("g.q", "1/s", asks("other.places"))
		r.putRule(ruleOf("g.r", leaky.AlgorithmConcurrency, places))
	}},
	{"changing a queue's rules is a change of the queue, and a rollback restores them if they exist", func(r *rig) {
		r.limiter(countingRule("q.r", 9))
		with := r.put(spec("q", "1/s", asks("q.r"))).Revision
		if res := r.put(spec("q", "1/s", asks("q.r"))); res.Changed {
			r.Errorf("the same rules: %+v", res)
		}
		if res := r.put(spec("q", "1/s")); !res.Changed || res.Revision <= with {
			r.Errorf("no rules: %+v", res)
		}
		r.askedBy("q.r")
		_, err := r.e.Rollback(r.ctx, "q", with, queue.AnyRevision)
		r.check(err)
		r.askedBy("q.r", "q")
		r.queue("q", "1/s")
		r.deleteRule("q.r")
		_, err = r.e.Rollback(r.ctx, "q", with, queue.AnyRevision)
		r.refusesField("rules.0", err)
		if i := r.info("q"); i.Spec.Rules != nil {
			r.Errorf("got %+v", i.Spec.Rules)
		}
		r.limiter(countingRule("q.r", 1))
		_, err = r.e.Rollback(r.ctx, "q", with, queue.AnyRevision)
		r.check(err)
		r.askedBy("q.r", "q")
	}},
	{"a forced delete of the last queue frees the rule, and the queue made again names none", func(r *rig) {
		r.limiter(countingRule("q.r", 1))
		r.queue("q", "unlimited", asks("q.r"))
		r.accept("q", "a")
		r.delete("q")
		r.askedBy("q.r")
		r.deleteRule("q.r")
		r.queue("q", "unlimited")
		r.accept("q", "b", "c")
	}},
}
