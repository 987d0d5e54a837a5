package admission

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

func defers(r *rules.Rule) { r.Action = rules.Defer }

// Jobs refused by a rule of another group with the action defer are passed on to be put aside, unless another rule
// refuses them for good. In either case no rule charges them.
func TestAppendHasJobsPutAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("a.first", 9, nil), rule("b.defers", 1, defers), rule("c.rejects", 2, nil), rule("d.longer", 1,
			func(r *rules.Rule) {
				defers(r)
				r.Period = unit.Duration(time.Hour)
			}), rule("e.shadow", 1, func(r *rules.Rule) { r.Action = rules.Shadow }))
		s.queues["mail"] = []string{"a.first", "b.defers", "c.rejects", "d.longer", "e.shadow"}
		a, _, _ := begin(t, s)
		next := &taker{answers: map[string]queue.Appended{"aside": {Outcome: queue.Accepted, State: queue.Deferred}}}
		p := NewAppender(a, next)
		never := job("mail", "never", "acme")
		never.Overflow = queue.Reject
		answers, err := p.Append(t.Context(), []queue.Job{
			job("mail", "in", "acme"), job("mail", "aside", "acme"), never, job("mail", "other", "zeta"),
		})
		if err != nil || !slices.Equal(outcomes(answers), []string{"accepted", "accepted", "limit_reached", "accepted"}) {
			t.Fatalf("%v, %v", outcomes(answers), err)
		}
		if !slices.Equal(next.got, []string{"in", "aside", "other"}) || len(next.limited) != 1 {
			t.Errorf("%v went on, %v to be put aside", next.got, next.limited)
		}
		aside := answers[1]
		if aside.State != queue.Deferred || len(aside.Rules) != 5 || aside.Rules[1].Allowed || !aside.Rules[2].Allowed ||
			aside.Rules[3].Allowed || !aside.Rules[4].Shadow {
			t.Errorf("put aside: %+v", aside)
		}
		// Of all that refuse it the one counts that asks to wait longest.
		if name, wait, ok := rules.Limited(aside.Rules); !ok || name != "d.longer" || next.limited[0] != wait ||
			wait <= time.Minute {
			t.Errorf("%s, %v; it went on with %v", name, wait, next.limited)
		}
		if name, wait, ok := rules.Limited(answers[2].Rules); !ok || name != "b.defers" || answers[2].RetryAfter != wait {
			t.Errorf("refused: %s, %v, %+v", name, wait, answers[2])
		}
		for name, want := range map[string]int64{"a.first": 8, "b.defers": 0, "c.rejects": 1, "d.longer": 0, "e.shadow": 0} {
			if n := left(t, s, name, "acme"); n != want {
				t.Errorf("%s has %d left, want %d: only the first came in", name, n, want)
			}
		}

		// A rule that refuses for good is found after rules that defer.
		passes(t, s, "c.rejects", "acme", 1)
		next.got = nil
		if answers, err = p.Append(t.Context(), []queue.Job{job("mail", "aside", "acme")}); err != nil ||
			answers[0].Outcome != queue.LimitReached {
			t.Errorf("%+v, %v", answers, err)
		}
		if _, wait, _ := rules.Limited(answers[0].Rules[:3]); len(next.got) > 0 || answers[0].RetryAfter < wait {
			t.Errorf("%v went on; %+v", next.got, answers[0])
		}
		if n := left(t, s, "a.first", "acme"); n != 8 {
			t.Errorf("%d left", n)
		}
	})
}

// A job put aside by a rule of its own group is not charged by rules of other groups, either.
func TestPutAsideByTheOwnGroupIsChargedToNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("all.tenants", 9, nil))
		s.queues["mail"] = []string{"all.tenants", "mail.own"}
		a, _, _ := begin(t, s)
		p := NewAppender(a, &taker{answers: map[string]queue.Appended{
			"ruled": {Outcome: queue.Accepted, State: queue.Deferred, Rules: []rules.Ruling{{Rule: "mail.own"}}},
			"room":  {Outcome: queue.Accepted, State: queue.Deferred},
		}})
		if _, err := p.Append(t.Context(), []queue.Job{
			job("mail", "ruled", "acme"), job("mail", "room", "acme"),
		}); err != nil {
			t.Fatal(err)
		}
		if n := left(t, s, "all.tenants", "acme"); n != 8 {
			t.Errorf("%d left of 9: what found no room is charged, what a rule put aside is not", n)
		}
	})
}

// While the store is away, jobs refused by a rule that defers go on to the overflow. A rule that rejects refuses them.
func TestAwayHasJobsPutAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(
			rule("all.closed", 9, defers), rule("mail.closed", 9, defers),
			rule("mail.share", 4, func(r *rules.Rule) { r.Away = rules.AwayShare }),
		)
		s.queues["mail"] = []string{"all.closed", "mail.closed", "mail.share"}
		a, _, _ := begin(t, s)
		next := &taker{}
		p := NewAppender(a, next)
		pass := func(jobs ...queue.Job) []queue.Appended {
			answers, _ := a.Pass(t.Context(), jobs)
			return answers
		}
		if _, err := p.Append(t.Context(), []queue.Job{job("mail", "1", "acme")}); err != nil {
			t.Fatal(err)
		}
		pass(job("mail", "1", "acme"))
		synctest.Wait()
		s.fail(queue.ErrUnavailable)
		answers, err := p.Append(t.Context(), []queue.Job{job("mail", "2", "acme")})
		if err != nil || answers[0].Outcome != queue.Accepted || len(next.limited) != 1 || next.limited[0] != time.Second {
			t.Errorf("%+v, %v; it went on with %v", answers, err, next.limited)
		}
		limited := job("mail", "2", "acme")
		limited.Limited = time.Second
		for range 9 { // which takes nothing of the share
			if got := pass(limited); got[0].Outcome != queue.Accepted || len(got[0].Rules) != 2 || got[0].Rules[0].Allowed ||
				!got[0].Rules[1].Allowed {
				t.Fatalf("%+v", got)
			}
		}
		passes(t, a, "mail.share", "acme", 4)
		if got := pass(limited); got[0].Outcome != queue.LimitReached || got[0].RetryAfter < time.Second {
			t.Errorf("%+v", got)
		}
	})
}
