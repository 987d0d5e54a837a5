package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/rules"
)

// actAs sets the actor of the following calls, until the returned function is called.
func (r *rig) actAs(name string) func() {
	before := r.ctx
	r.ctx = audit.WithNote(r.ctx, name)
	return func() { r.ctx = before }
}

var changesOfJobsRules = []rule{
	{"changes of jobs are recorded with their number", func(r *rig) {
		q := r.queue("q", "1/s", func(s *queue.Spec) { s.OnUnknown = queue.UnknownHold })
		r.accept(q, "a", "b", "c", "d", "e")
		defer r.actAs("ann")()
		for range 2 { // the second time changes nothing
			_, err := r.e.Cancel(r.ctx, q, "e")
			r.check(err)
		}
		for _, id := range []string{"a", "b", "c"} {
			r.clock.Advance(2 * time.Second)
			v := r.grant(q, 1, id)[0]
			if id == "c" {
				r.settled(queue.Held, settlement(queue.Hold, v))
			} else {
				r.settled(queue.Dead, settlement(queue.Bury, v))
			}
		}
		outcomes, err := r.e.Replay(r.ctx, q, []string{"a", "nobody", "d"})
		if r.check(err); outcomes[0] != queue.Replayed {
			r.Fatalf("%v", outcomes)
		}
		dropped, err := r.e.Forget(r.ctx, q, []string{"a", "b"})
		if r.check(err); dropped[0] || !dropped[1] {
			r.Fatalf("%v", dropped)
		}
		_, err = r.e.Decide(r.ctx, q, []string{"c", "d"}, queue.Deliver, "seen in its log")
		r.check(err)
		_, err = r.e.Decide(r.ctx, q, []string{"c"}, queue.Bury, "no")
		r.check(err)
		_, err = r.e.Purge(r.ctx, queue.PurgeRequest{Queue: q, State: queue.Scheduled, Limit: 9})
		r.check(err)
		_, err = r.e.Purge(r.ctx, queue.PurgeRequest{Queue: q, State: queue.Waiting, Limit: 9})
		r.check(err)
		r.recorded(
			q, "purged by ann 2 (waiting)", "decided by ann 1 c (delivered): seen in its log", "forgotten by ann 1 b",
			"replayed by ann 1 a", "cancelled by ann 1 e", "created by : - to 1/s",
		)
	}},
	{"one purge is one change, in however many steps", func(r *rig) {
		q := r.queue("q", "1/s")
		const n = 130
		for i := range n {
			r.accept(q, fmt.Sprintf("j%03d", i))
		}
		begin := r.clock.Now()
		ask := queue.PurgeRequest{Queue: q, State: queue.Waiting, Limit: 10}
		for {
			done, err := r.e.Purge(r.ctx, ask)
			r.check(err)
			r.clock.Advance(time.Second)
			if ask.After = done.Next; ask.After == "" {
				break
			}
		}
		r.recorded(q, fmt.Sprintf("purged by  %d (waiting)", n), "created by : - to 1/s")
		c := r.changes(q, 1)[0]
		if instantOf(c.At) != begin || instantOf(c.Last) <= begin {
			r.Errorf("from %v to %v", c.At, c.Last)
		}
	}},
	{"other actors, kinds and times are separate changes", func(r *rig) {
		q := r.queue("q", "1/s")
		cancel := func(by, id string) {
			r.accept(q, id)
			_, err := r.e.Cancel(audit.WithNote(r.ctx, by), q, id)
			r.check(err)
		}
		for i := range queue.MaxChangeIDs + 2 {
			cancel("ann", fmt.Sprintf("a%d", i))
		}
		cancel("bob", "b")
		cancel("ann", "c")
		r.clock.Advance(queue.OneChange - time.Microsecond)
		cancel("ann", "d")
		r.clock.Advance(queue.OneChange)
		cancel("ann", "e")
		r.queue(q, "2/s")
		cancel("ann", "f")
		r.ctx = audit.WithActor(r.ctx, audit.Actor{Name: "token:1 ", Note: "ann"})
		cancelAs := func(id string) {
			r.accept(q, id)
			_, err := r.e.Cancel(r.ctx, q, id)
			r.check(err)
		}
		cancelAs("g")
		cancelAs("h")
		r.recorded(
			q, "cancelled by token:1 ann 2 g,h", "cancelled by ann 1 f", "changed by : 1/s to 2/s",
			"cancelled by ann 1 e", "cancelled by ann 2 c,d", "cancelled by bob 1 b",
			"cancelled by ann 12 a0,a1,a2,a3,a4,a5,a6,a7,a8,a9", "created by : - to 1/s",
		)
	}},
	{"forgetting dead jobs of a deleted queue is recorded under its name", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a")
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "a")[0]))
		r.delete(q)
		_, err := r.e.Forget(audit.WithNote(r.ctx, "ann"), q, []string{"a"})
		r.check(err)
		r.recorded(q, "forgotten by ann 1 a", "deleted by : 1/s to -", "created by : - to 1/s")
		r.clock.Advance(queue.KeepChanges)
		_, err = r.e.Changes(r.ctx, queue.ChangesRequest{Subject: queue.OfQueue, Name: q, Limit: 9})
		r.refuses(err, queue.ErrUnknownQueue)
	}},
	{"resuming a receiver's stop is recorded", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		s := settlement(queue.Throttle, r.grant(q, 1, "a")[0])
		s.After, s.Reason = time.Hour, "429"
		r.settled(queue.Waiting, s)
		for range 2 {
			r.check(r.e.Resume(audit.WithNote(r.ctx, "ann"), q))
		}
		r.recorded(q, "resumed by ann ("+changelog.StopLifted+")", "created by : - to 10/s")
	}},
	{"changes of rules are recorded, without their overrides", func(r *rig) {
		ask := queue.ChangesRequest{Subject: queue.OfRule, Name: "g.r", Limit: 9}
		defer r.actAs("ann")()
		first := ruleOf("g.r", leaky.AlgorithmMeter, rules.Bound{Rate: leaky.PerSecond(3)}, withKey("{lane}"))
		one := r.putRule(first).Revision
		r.putRule(first)
		second := first
		second.Overrides = map[string]rules.Bound{"vip": {Rate: leaky.PerSecond(100), Burst: 3}}
		second.Rate = leaky.PerSecond(7)
		two := r.putRule(second).Revision
		r.check(r.e.ResetRule(r.ctx, "g.r"))
		_, err := r.e.Take(r.ctx, "g.r", []rules.Take{
			{Key: "k"}, {Op: rules.TakeBack, Key: "k"}, {Op: rules.TakeAnew, Key: "k"},
		})
		r.check(err)
		r.refuses(r.e.DeleteRule(r.ctx, "g.r", one), queue.ErrRevision)
		r.check(r.e.DeleteRule(r.ctx, "g.r", two))
		var got []string
		for _, c := range r.record(ask, 99) {
			text := fmt.Sprintf("%d %s by %s", c.Number, c.What, c.By+c.Note)
			if c.RuleBefore != nil {
				text += " from " + c.RuleBefore.Rate.String()
			}
			if c.RuleAfter != nil {
				text += " to " + c.RuleAfter.Rate.String()
				if len(c.RuleAfter.Overrides) > 0 {
					r.Error("overrides are kept")
				}
			}
			got = append(got, text)
		}
		rate := first.Rate.String()
		want := []string{
			"4 deleted by ann from 7/s", "3 reset by ann", "2 changed by ann from " + rate + " to 7/s",
			"1 created by ann to " + rate,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			r.Errorf("got %q, want %q", got, want)
		}
		r.clock.Advance(queue.KeepChanges)
		_, err = r.e.Changes(r.ctx, ask)
		r.refuses(err, rules.ErrUnknown)
	}},
	{"the recorded actor can always be displayed", func(r *rig) {
		q := r.queue("q", "1/s")
		r.putRule(countingRule("q.r", 1))
		r.accept(q, "a")
		for _, by := range []string{strings.Repeat("x", 1<<20), "a\nb", "\x1b[31m", "a\u202eb", "a\u200bb", "\xff"} {
			ctx := audit.WithNote(r.ctx, by)
			_, err := r.e.Cancel(ctx, q, "a")
			r.refusesField("by", err)
			_, err = r.e.Purge(ctx, queue.PurgeRequest{Queue: q, State: queue.Waiting, Limit: 9})
			r.refusesField("by", err)
			_, err = r.e.Replay(ctx, q, []string{"a"})
			r.refusesField("by", err)
			_, err = r.e.Forget(ctx, q, []string{"a"})
			r.refusesField("by", err)
			_, err = r.e.Decide(ctx, q, []string{"a"}, queue.Release, "")
			r.refusesField("by", err)
			_, err = r.e.PutRule(ctx, countingRule("q.s", 1), queue.AnyRevision)
			r.refusesField("by", err)
			r.refusesField("by", r.e.DeleteRule(ctx, "q.r", queue.AnyRevision))
			r.refusesField("by", r.e.ResetRule(ctx, "q.r"))
		}
		r.recorded(q, "created by : - to 1/s")
		if len(r.record(queue.ChangesRequest{Subject: queue.OfRule, Name: "q.r", Limit: 9}, 9)) != 1 {
			r.Error("the rule was changed")
		}
	}},
}
