package queuetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// jobTo returns a job for a recipient, which is the key of rules.
func jobTo(queueName, id, to string) queue.Job {
	j := job(queueName, id)
	j.Payload = fmt.Appendf(nil, `{"id":%q,"to":%q}`, id, to)
	return j
}

// mails returns jobs for one recipient.
func mails(queueName, to string, ids ...string) []queue.Job {
	list := make([]queue.Job, len(ids))
	for i, id := range ids {
		list[i] = jobTo(queueName, id, to)
	}
	return list
}

// said formats the rulings on a job, such as "g.r 2, g.s no, g.t (no)": how much remains, no for a refusal, and a
// shadow's ruling in parentheses.
func said(a queue.Appended) string {
	var list []string
	for _, s := range a.Rules {
		text := "no"
		if s.Allowed {
			text = fmt.Sprint(s.Remaining)
		}
		if s.Shadow {
			text = "(" + text + ")"
		}
		list = append(list, s.Rule+" "+text)
	}
	return strings.Join(list, ", ")
}

// checkRules compares the outcomes of jobs and their rulings, each as "accepted: g.r 2".
func (r *rig) checkRules(got []queue.Appended, want ...string) {
	r.Helper()
	for i, a := range got {
		text := strings.TrimSuffix(fmt.Sprintf("%v: %s", a.Outcome, said(a)), ": ")
		if i >= len(want) || text != want[i] {
			r.Errorf("answer %d, to %s, at %d: %s\n%+v", i, a.ID, r.clock.Now(), text, a)
		}
		if a.Outcome == queue.LimitReached {
			_, wait, limited := rules.Limited(a.Rules)
			if !limited || a.RetryAfter != max(wait, time.Millisecond) || a.State != queue.StateNone ||
				a.Position != 0 || a.Ticket != "" || a.Err != nil {
				r.Errorf("refused with %+v", a)
			}
		}
	}
	if len(got) != len(want) {
		r.Fatalf("%d answers, want %d", len(got), len(want))
	}
}

// lacks checks that a job is refused because the given field is missing.
func (r *rig) lacks(field string, a queue.Appended) {
	r.Helper()
	var fe *invalid.Error
	if a.Outcome != queue.Invalid || !errors.As(a.Err, &fe) || fe.Field != field || len(a.Rules) > 0 {
		r.Errorf("%s: %+v; want it invalid for its %s", a.ID, a, field)
	}
}

const byTo = "{payload/to}"

var ruleAppendRules = []rule{
	{"a job is accepted as long as the rules allow it under its key", func(r *rig) {
		r.limiter(countingRule("q.r", 2, withKey(byTo)))
		q := r.queue("q", "unlimited", asks("q.r"))
		r.clock.Advance(20 * time.Second)
		got := r.append(mails(q, "x", "a", "b", "c")...)
		r.checkRules(got, "accepted: q.r 1", "accepted: q.r 0", "limit_reached: q.r no")
		if got[2].RetryAfter != 40*time.Second || got[2].Rules[0].Limit != 2 ||
			got[2].Rules[0].ResetAfter != 40*time.Second {
			r.Errorf("got %+v", got[2])
		}
		r.unknown(q, "c")
		r.checkRules(r.append(jobTo(q, "d", "y")), "accepted: q.r 1")
		r.tallies(q, tally{waiting: 3, appended: 3, refused: 1})
		r.clock.Advance(40*time.Second - time.Microsecond)
		r.checkRules(r.append(jobTo(q, "c", "x")), "limit_reached: q.r no")
		r.clock.Advance(time.Microsecond)
		r.checkRules(r.append(jobTo(q, "c", "x")), "accepted: q.r 1")
		r.checkRemaining("q.r", "x", 1)
		r.takes("q.r", "x", 1, true)
		r.checkRules(r.append(jobTo(q, "e", "x")), "limit_reached: q.r no") // takes by name use the same tally
	}},
	{"the parent's rules are asked first, then the queue's own, each once, and all are charged or none", func(r *rig) {
		for name, limit := range map[string]int64{"g.p": 9, "g.both": 9, "g.own": 1, "g": 9} {
			r.limiter(countingRule(name, limit))
		}
		r.limiter(countingRule("other.r", 1))
		r.queue("g.c", "unlimited", asks("g.both", "other.r", "other.none", "g.own"))
		r.checkRules(r.append(job("g.c", "a")), "accepted: g.both 8, g.own 0")
		r.queue("g", "unlimited", asks("g.p", "g.both", "g"))
		r.checkRules(
			r.append(jobs("g.c", "b", "c")...), "limit_reached: g.p 8, g.both 7, g 8, g.own no",
			"limit_reached: g.p 8, g.both 7, g 8, g.own no",
		)
		r.checkRules(r.append(job("g", "a")), "accepted: g.p 8, g.both 7, g 8")
		r.check(r.e.ResetRule(r.ctx, "g.own"))
		r.checkRules(
			r.append(jobs("g.c", "d", "e")...), "accepted: g.p 7, g.both 6, g 7, g.own 0",
			"limit_reached: g.p 6, g.both 5, g 6, g.own no",
		)
		for name, want := range map[string]int64{"g.p": 7, "g.both": 6, "g": 7, "g.own": 0} {
			r.checkRemaining(name, "", want)
		}
		r.checkRemaining("other.r", "", 1)
	}},
	{"a known or expired job asks no rule, nor does one without a queue or place in its lane or schedule", func(r *rig) {
		r.limiter(countingRule("q.r", 9))
		q := r.queue("q", "unlimited", asks("q.r"), everyLane(holding(1)), func(s *queue.Spec) { s.MaxScheduled = 1 })
		now := r.clock.Now().Time()
		later := job(q, "later")
		later.NotBefore = now.Add(time.Hour)
		r.checkRules(r.append(jobOfLane(laneX, q, "a"), later), "accepted: q.r 8", "accepted: q.r 7")
		expired, far, conflict, bad, scheduled := job(q, "b"), job(q, "c"), jobOfLane(laneX, q, "a"),
			job(q, "not valid"), job(q, "d")
		expired.ExpiresAt, far.NotBefore, scheduled.NotBefore = now, now.Add(queue.MaxAhead+time.Hour),
			now.Add(time.Minute)
		conflict.Payload = []byte("another")
		r.checkRules(r.append(
			jobOfLane(laneX, q, "a"), later, expired, far, conflict, bad, job("nobody", "x"),
			jobOfLane(laneX, q, "e"), scheduled,
		),
			"duplicate", "duplicate", "expired", "invalid", "conflict", "invalid", "unknown_queue", "lane_full",
			"schedule_full")
		r.checkRemaining("q.r", "", 7)
		r.checkRules(
			r.offer(jobOfLane(laneX, q, "a"), expired, jobOfLane(laneX, q, "e")), "duplicate", "expired", "lane_full",
		)
		r.checkRemaining("q.r", "", 7)
	}},
	{"a job that finds no place has asked the rules but is not charged", func(r *rig) {
		r.limiter(countingRule("q.r", 9))
		q := r.queue("q", "10/s", asks("q.r"), withCapacity(2))
		r.checkRules(r.append(jobs(q, "a", "b", "c")...), "accepted: q.r 8", "accepted: q.r 7", "full: q.r 6")
		r.checkRules(r.offer(withOverflow(queue.Reject, q, "c")), "full: q.r 6")
		r.deliver(r.grant(q, 1, "a")...)
		late := job(q, "late")
		late.ExpiresAt = r.clock.Now().Add(time.Millisecond).Time()
		r.checkRules(r.append(late), "expired: q.r 6")
		r.checkRemaining("q.r", "", 7)
		r.checkRules(r.append(job(q, "c")), "accepted: q.r 6")
	}},
	{"a job without the value that a rule counts by is refused alone, unless it is known", func(r *rig) {
		r.limiter(countingRule("q.to", 9, withKey(byTo)))
		r.limiter(countingRule("q.tenant", 9, withKey("{header.X-Tenant}:{lane}")))
		q := r.queue("q", "unlimited")
		known := job(q, "known")
		r.acceptJobs(known)
		r.queue(q, "unlimited", asks("q.to", "q.tenant"))
		good := jobOfLane(laneX, q, "good")
		good.Payload, good.Headers = []byte(`{"to":"x"}`), map[string]string{"x-tenant": "acme"}
		bare, nobody, untold, nowhere := good, good, good, good
		bare.ID, bare.Payload = "bare", []byte("no JSON")
		nobody.ID, nobody.Payload = "nobody", []byte(`{"to":null}`)
		untold.ID, untold.Headers = "untold", nil
		nowhere.ID, nowhere.Lane = "nowhere", ""
		got := r.append(bare, known, good, nobody, untold, nowhere)
		r.lacks("payload/to", got[0])
		r.checkRules(got[1:3], "duplicate", "accepted: q.to 8, q.tenant 8")
		r.lacks("payload/to", got[3])
		r.lacks("headers.X-Tenant", got[4])
		r.lacks("lane", got[5])
		r.lacks("lane", r.offer(nowhere)[0])
		if i := r.info(q); i.Refused != 0 || i.Appended != 2 {
			r.Errorf("counted %+v", i)
		}
		r.checkRemaining("q.tenant", "acme:"+laneX, 8)
	}},
	{"a job is charged its cost, and a cost above a rule's limit can never pass", func(r *rig) {
		r.limiter(countingRule("q.r", 5, withKey("{lane}"), func(r *rules.Rule) {
			r.Overrides = map[string]rules.Bound{laneY: {Limit: 1000, Period: r.Period}}
		}))
		q := r.queue("q", "unlimited", asks("q.r"))
		cost := func(lane, id string, cost int64) queue.Appended {
			j := jobOfLane(lane, q, id)
			j.Cost = cost
			return r.append(j)[0]
		}
		r.checkRules([]queue.Appended{
			cost(laneX, "a", 3), cost(laneX, "b", 3), cost(laneX, "c", 2), cost(laneX, "d", 1),
		},
			"accepted: q.r 2", "limit_reached: q.r no", "accepted: q.r 0", "limit_reached: q.r no")
		r.lacks("cost", cost(laneX, "e", 6))
		r.checkRules(
			[]queue.Appended{cost(laneY, "f", 999), cost(laneY, "g", 2)}, "accepted: q.r 1", "limit_reached: q.r no",
		)
	}},
	{"a shadow refuses nothing and counts accepted jobs", func(r *rig) {
		r.limiter(countingRule("q.shadow", 2, withKey(byTo), withAction(rules.Shadow)))
		r.limiter(countingRule("q.r", 3))
		q := r.queue("q", "unlimited", asks("q.shadow", "q.r"))
		r.checkRules(r.append(mails(
			q, "x", "a", "b", "c", "d",
		)...), "accepted: q.shadow (1), q.r 2", "accepted: q.shadow (0), q.r 1",
			"accepted: q.shadow (no), q.r 0", "limit_reached: q.shadow (no), q.r no")
		r.check(r.e.ResetRule(r.ctx, "q.shadow"))
		r.checkRules(r.append(jobTo(q, "e", "x")), "limit_reached: q.shadow (1), q.r no")
		r.checkRemaining("q.shadow", "x", 2) // a job refused by another rule is charged to none
		r.check(r.e.ResetRule(r.ctx, "q.r"))
		dear := jobTo(q, "dear", "x")
		dear.Cost = 3
		// q.shadow cannot judge a job without its key, nor one above its limit.
		r.checkRules(r.append(job(q, "none"), dear), "accepted: q.r 2", "limit_reached: q.r no")
		r.putRule(countingRule("q.shadow", 2, withKey(byTo)))
		r.lacks("payload/to", r.append(job(q, "bare"))[0])
	}},
	{"the longest wait of the refusing rules is reported, at least a millisecond", func(r *rig) {
		r.limiter(countingRule("q.minute", 1))
		r.limiter(ruleOf("q.gap", leaky.AlgorithmGap, rules.Bound{Period: 90 * second}))
		r.limiter(ruleOf("q.fast", leaky.AlgorithmMeter, rules.Bound{Rate: rate("1000000/s")}))
		r.limiter(ruleOf("q.day", leaky.AlgorithmGap, rules.Bound{Period: 86400 * second}, withAction(rules.Shadow)))
		q := r.queue("q", "unlimited", asks("q.minute", "q.day", "q.gap"))
		r.accept(q, "a")
		if a := r.outcome(queue.LimitReached, job(q, "b")); a.RetryAfter != 90*time.Second {
			r.Errorf("got %+v", a)
		}
		r.clock.Advance(90 * time.Second)
		p := r.queue("q.p", "unlimited", asks("q.fast"))
		r.queue(q, "unlimited")
		r.accept(p, "a")
		r.checkRules(r.append(job(p, "b")), "limit_reached: q.fast no")
	}},
	{"a changed rule, or other rules of the queue or its parent, apply from the next append on", func(r *rig) {
		r.limiter(countingRule("g.r", 1))
		r.limiter(countingRule("g.s", 5, withKey(byTo)))
		r.queue("g.c", "unlimited", asks("g.r"))
		r.checkRules(r.append(jobs("g.c", "a", "b")...), "accepted: g.r 0", "limit_reached: g.r no")
		r.putRule(countingRule("g.r", 3))
		r.checkRules(r.append(jobs("g.c", "b", "c")...), "accepted: g.r 1", "accepted: g.r 0")
		r.putRule(countingRule("g.r", 3, withKey(byTo)))
		r.checkRules(r.append(jobTo("g.c", "d", "x")), "accepted: g.r 2")
		r.putRule(ruleOf("g.r", leaky.AlgorithmGap, rules.Bound{Period: second}))
		r.checkRules(r.append(jobs("g.c", "e", "f")...), "accepted: g.r 0", "limit_reached: g.r no")
		r.queue("g.c", "unlimited")
		r.checkRules(r.append(job("g.c", "f")), "accepted")
		r.queue("g", "unlimited", asks("g.s"))
		r.checkRules(r.append(jobTo("g.c", "g", "x")), "accepted: g.s 4")
		r.queue("g", "unlimited", asks("g.s", "g.r"))
		r.checkRules(r.append(jobTo("g.c", "h", "x")), "limit_reached: g.s 3, g.r no")
		r.queue("g", "unlimited")
		r.checkRules(r.append(jobTo("g.c", "h", "x")), "accepted")
		r.queue("g.c", "unlimited", asks("g.s"))
		r.delete("g.c")
		r.queue("g.c", "unlimited")
		r.checkRules(r.append(jobTo("g.c", "h", "x")), "accepted")
	}},
	{"a tally that changed numbers left ahead drains even after a refusal", func(r *rig) {
		r.limiter(ruleOf("q.r", leaky.AlgorithmMeter, rules.Bound{Rate: rate("1/744h"), Burst: 5}))
		q := r.queue("q", "unlimited", asks("q.r"))
		r.accept(q, "a", "b", "c", "d", "e")
		r.putRule(ruleOf("q.r", leaky.AlgorithmMeter, rules.Bound{Rate: leaky.PerSecond(5), Burst: 5}))
		r.outcome(queue.LimitReached, job(q, "f"))
		r.clock.Advance(200 * time.Millisecond)
		r.accept(q, "f")
		r.outcome(queue.LimitReached, job(q, "g"))
	}},
	{"returning, replayed and earlier jobs ask no rule", func(r *rig) {
		r.limiter(countingRule("q.r", 3))
		s := r.overflowOf("q", "unlimited", withCapacity(2), asks("q.r"))
		r.accept(s.q, "a", "b")
		s.setAside("c")
		s.addUnknown("d")
		r.beside[s.q]++
		r.checkRemaining("q.r", "", 0)
		v := r.grant(s.q, 9, "a", "b")
		r.settled(queue.Dead, settlement(queue.Bury, v[0]))
		r.fail(0, v[1])
		s.takes(readmit.Returned)
		r.drain(s.q)
		s.takes(readmit.Returned)
		r.drain(s.q)
		r.replays(s.q, []string{"a"}, queue.Replayed)
		r.deliver(r.grant(s.q, 9, "a")...)
		r.outcome(queue.LimitReached, job(s.q, "e"))
	}},
}

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
