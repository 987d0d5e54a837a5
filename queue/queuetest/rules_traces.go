package queuetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// judge rules on a job with this key and charges the rules, for a queue with room.
func judge(
	asked []*oracle, now leaky.Instant, key string, cost int64,
) (ruled []rules.Ruling, wait time.Duration, defers, limited bool) {
	ask := leaky.Ask{Cost: cost}
	var charged []*oracle
	defers = true
	for _, o := range asked {
		k := o.of(now, key)
		if cost > k.limiter.Limit() { // here only shadows have limits below a cost
			continue
		}
		shadow := o.rule.Action == rules.Shadow
		d := k.tally.Peek(now, ask)
		ruled = append(ruled, rules.Ruling{Rule: o.rule.Name, Shadow: shadow, Decision: d})
		switch {
		case d.Allowed:
			charged = append(charged, o)
			continue
		case !shadow:
			limited, wait = true, max(wait, d.RetryAfter, time.Millisecond)
			defers = defers && o.rule.Action == rules.Defer
		}
		k.tally.Take(now, ask)
		o.keep(now, key, k)
	}
	if limited {
		return ruled, wait, defers, true
	}
	for _, o := range charged {
		k := o.of(now, key)
		k.tally.Take(now, ask)
		o.keep(now, key, k)
	}
	return ruled, 0, false, false
}

var ruleTraceRules = []rule{
	{"several rules at once judge random jobs as their arithmetic does", func(r *rig) {
		rnd := rand.New(rand.NewPCG(3, 5))
		oracles := map[string]*oracle{}
		put := func(name string) {
			all := slices.DeleteFunc(rules.Algorithms(), func(a leaky.Algorithm) bool { return !rules.ForQueues(a) })
			a := all[rnd.IntN(len(all))]
			numbers := bounds[a][0]
			action := []string{rules.Reject, rules.Reject, rules.Defer, rules.Shadow}[rnd.IntN(4)]
			if a == leaky.AlgorithmGap {
				action = rules.Shadow // or a cost above 1 could never pass
			}
			rule := ruleOf(name, a, numbers, withKey("{lane}"), withAction(action), func(r *rules.Rule) {
				r.Overrides = map[string]rules.Bound{"vip": changeable(a)[rnd.IntN(len(changeable(a)))]}
				if l, _ := r.Of("vip").Limiter(a); l.Limit() < 3 {
					r.Overrides = nil
				}
			})
			r.putRule(rule)
			if oracles[name] == nil {
				oracles[name] = newOracle(rule)
			}
			oracles[name].changes(rule)
		}
		names := map[string][]string{
			"g.a": {"g.p", "g.q", "g.x"}, "g.b": {"g.p", "g.q", "g.y", "g.z"}, "g": {"g.p", "g.q"},
		}
		for _, name := range []string{"g.p", "g.q", "g.x", "g.y", "g.z"} {
			put(name)
		}
		r.queue("g", "unlimited", asks("g.p", "g.q"), withCapacity(100_000))
		r.queue("g.a", "unlimited", asks("g.q", "g.x"), withCapacity(100_000))
		r.queue("g.b", "unlimited", asks("g.y", "g.z"), withCapacity(100_000))
		limits := 0
		for n := range 400 {
			if rnd.IntN(8) == 0 {
				put([]string{"g.p", "g.q", "g.x", "g.y", "g.z"}[rnd.IntN(5)])
			}
			q := []string{"g", "g.a", "g.b"}[rnd.IntN(3)]
			var asked []*oracle
			for _, name := range names[q] {
				asked = append(asked, oracles[name])
			}
			list := make([]queue.Job, 1+rnd.IntN(6))
			for i := range list {
				list[i] = jobOfLane([]string{"a", "b", "vip"}[rnd.IntN(3)], q, fmt.Sprintf("j%d.%d", n, i))
				list[i].Cost = 1 + rnd.Int64N(3)
			}
			now, offered := r.clock.Now(), rnd.IntN(2) == 0
			got := []queue.Appended(nil)
			if offered {
				got = r.offer(list...)
			} else {
				got = r.append(list...)
			}
			last := time.Duration(0)
			for i, a := range got {
				ruled, wait, defers, limited := judge(asked, now, list[i].Lane, list[i].Cost)
				want := queue.Accepted
				switch {
				case limited && offered && defers:
					want, wait = queue.SetAside, 0
				case limited:
					want, limits = queue.LimitReached, limits+1
				}
				if a.Outcome != want || a.RetryAfter != wait ||
					!(len(a.Rules) == 0 && len(ruled) == 0) && !reflect.DeepEqual(a.Rules, ruled) {
					r.Fatalf("job %d of %d to %s at %d, lane %s cost %d:\n got %v retry %v %+v, %v\nwant %v retry %v "+
						"%+v", i, len(list), q, now, list[i].Lane, list[i].Cost,
						a.Outcome, a.RetryAfter, a.Rules, a.Err, want, wait, ruled)
				}
				for _, s := range ruled {
					last = max(last, s.RetryAfter)
				}
			}
			switch rnd.IntN(5) {
			case 0:
				r.clock.Advance(time.Duration(rnd.Int64N(int64(time.Second))))
			case 1, 2:
				if last < time.Minute {
					r.clock.Advance(max(0, last-time.Duration(rnd.IntN(2))*time.Microsecond))
				}
			}
		}
		if limits < 20 {
			r.Errorf("only %d were refused", limits)
		}
	}},
	{"in a large call every job is judged by its own key", func(r *rig) {
		r.limiter(countingRule("q.r", 3, withKey(byTo)))
		r.limiter(countingRule("q.all", 1700))
		q := r.queue("q", "unlimited", asks("q.r", "q.all"), withCapacity(100_000))
		var list []queue.Job
		for i := range 2400 {
			list = append(list, jobTo(q, fmt.Sprint("j", i), fmt.Sprint("x", i%600)))
		}
		accepted := 0
		for i, a := range r.append(list...) {
			want := queue.Accepted
			if i >= 1700 { // the fourth job of each key exceeds it
				want = queue.LimitReached
			} else {
				accepted++
			}
			if a.Outcome != want || len(a.Rules) != 2 || a.Rules[0].Remaining != int64(max(0, 2-i/600)) {
				r.Fatalf("job %d: %+v", i, a)
			}
		}
		r.tallies(q, tally{waiting: int64(accepted), appended: int64(accepted), refused: 700})
	}},
	{"a crowd appends not one more than allowed, and each job once", func(r *rig) {
		algorithms := []leaky.Algorithm{
			leaky.AlgorithmMeter, leaky.AlgorithmFixedWindow, leaky.AlgorithmSlidingLog, leaky.AlgorithmSlidingCounter,
			leaky.AlgorithmGap,
		}
		for _, a := range algorithms {
			rule := ruleOf("g.r-"+string(a), a, bounds[a][0])
			l, _ := rule.Limiter(a)
			r.limiter(rule)
			r.limiter(countingRule("g.s-"+string(a), 1000))
			q := r.queue("g.q-"+string(a), "unlimited", asks("g.s-"+string(a), rule.Name))
			var mu sync.Mutex
			in := map[string]int{}
			r.crowd(16, func(w int) int {
				for i := range 6 {
					id := fmt.Sprint("j", (w+i)%12) // other workers append the same
					got, err := r.e.Append(r.ctx, []queue.Job{job(q, id)})
					if err != nil || len(got) != 1 ||
						!slices.Contains(
							[]queue.AppendOutcome{queue.Accepted, queue.Duplicate, queue.LimitReached}, got[0].Outcome,
						) {
						r.Errorf("append %s: %+v, %v", id, got, err)
						return 0
					}
					if got[0].Outcome == queue.Accepted {
						mu.Lock()
						in[id]++
						mu.Unlock()
					}
				}
				return 0
			})
			if int64(len(in)) != l.Limit() {
				r.Errorf("%s: %v came in, %d may", a, in, l.Limit())
			}
			r.checkRemaining("g.s-"+string(a), "", 1000-int64(len(in)))
			if i := r.info(q); i.Appended != int64(len(in)) {
				r.Errorf("%s: %+v", a, i)
			}
		}
	}},
}
