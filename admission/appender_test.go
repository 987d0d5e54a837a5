package admission

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
	"github.com/penstock/penstock/queue/unit"
)

// taker is an Appender that answers as it is told, by the id of a job; Accepted else.
type taker struct {
	answers map[string]queue.Appended
	err     error
	got     []string
	limited []time.Duration // of jobs to be put aside
}

func (s *taker) Append(_ context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	if s.err != nil {
		return nil, s.err
	}
	out := make([]queue.Appended, len(jobs))
	for i, j := range jobs {
		s.got = append(s.got, j.ID)
		if j.Limited > 0 {
			s.limited = append(s.limited, j.Limited)
		}
		out[i] = s.answers[j.ID]
		if out[i].Outcome == queue.Failed && out[i].Err == nil {
			out[i].Outcome = queue.Accepted
		}
		out[i].ID = j.ID
	}
	return out, nil
}

func job(name, id, lane string) queue.Job { return queue.Job{Queue: name, ID: id, Lane: lane} }

func outcomes(answers []queue.Appended) []string {
	var s []string
	for _, a := range answers {
		s = append(s, a.Outcome.String())
	}
	return s
}

func rule(name string, limit int64, change func(*rules.Rule)) rules.Rule {
	r := window(name, rules.AwayClosed, limit)
	if change != nil {
		change(&r)
	}
	return r
}

func TestAppendAsksRulesOfOtherGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("all.tenants", 3, nil), rule(
			"all.strict", 2, func(r *rules.Rule) { r.Key = "" },
		), rule("mail.own", 1, nil),
			rule("seen.only", 1, func(r *rules.Rule) { r.Action = rules.Shadow }))
		s.queues["mail"] = []string{"all.tenants", "mail.own"}
		s.queues["mail.otp"] = []string{"all.strict", "seen.only"}
		s.queues["plain"] = nil
		a, _, _ := begin(t, s)
		next := &taker{}
		p := NewAppender(a, next)
		// The parent's rules hold for the child, before its own.
		answers, err := p.Append(t.Context(), []queue.Job{
			job("mail.otp", "1", "acme"), job("mail.otp", "2", "acme"), job("mail.otp", "3", "acme"),
			job("mail.otp", "4", "acme"), job("plain", "5", ""),
		})
		if err != nil || !slices.Equal(outcomes(answers), []string{
			"accepted", "accepted", "limit_reached", "limit_reached", "accepted",
		}) {
			t.Fatalf("%v, %v", outcomes(answers), err)
		}
		if !slices.Equal(next.got, []string{"1", "2", "5"}) {
			t.Errorf("%v went on", next.got)
		}
		for i, want := range [][]string{
			{"all.tenants", "all.strict", "seen.only"},
			{"all.tenants", "all.strict", "seen.only"},
			{"all.tenants", "all.strict"},
			{"all.tenants"},
			nil,
		} {
			var said []string
			for _, r := range answers[i].Rules {
				said = append(said, r.Rule)
			}
			if !slices.Equal(said, want) {
				t.Errorf("job %d was decided by %v, want %v", i+1, said, want)
			}
		}
		if refused := answers[1].Rules[2]; refused.Allowed || !refused.Shadow {
			t.Errorf("the shadow said %+v", refused)
		}
		if name, wait, ok := rules.Limited(answers[2].Rules); !ok || name != "all.strict" || wait != answers[2].RetryAfter ||
			wait <= 0 || answers[2].ID != "3" {
			t.Errorf("%s, %v, %+v", name, wait, answers[2])
		}
		// What the third took of the first rule was given back, but not before the fourth was asked: it is one call.
		if n := left(t, s, "all.tenants", "acme"); n != 1 {
			t.Errorf("%d left, 2 came in of 3", n)
		}
		if n := left(t, s, "mail.own", "acme"); n != 1 {
			t.Error("the rule of the own group was asked here")
		}
	})
}

// Takes of jobs that do not come in are given back, and takes of jobs that may have come in are kept.
func TestAppendGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("all.tenants", 100, nil))
		s.queues["mail"] = []string{"all.tenants"}
		a, _, _ := begin(t, s)
		next := &taker{answers: map[string]queue.Appended{
			"deferred": {Outcome: queue.Accepted, State: queue.Deferred}, "duplicate": {Outcome: queue.Duplicate},
			"conflict": {Outcome: queue.Conflict},
			"full":     {Outcome: queue.Full}, "own": {Outcome: queue.LimitReached, Rules: []rules.Ruling{{Rule: "mail.own"}}},
			"unknown": {Outcome: queue.Failed, Err: queue.ErrOutcomeUnknown}, "away": {
				Outcome: queue.Failed, Err: queue.ErrUnavailable,
			},
			"lapsed": {Outcome: queue.Lapsed}, "overflow": {Outcome: queue.OverflowFull}, "lane": {Outcome: queue.LaneFull},
		}}
		p := NewAppender(a, next)
		var jobs []queue.Job
		for _, id := range []string{
			"in", "deferred", "unknown", "duplicate", "conflict", "full", "own", "away", "lapsed", "overflow", "lane",
		} {
			j := job("mail", id, "acme")
			j.Cost = 2
			jobs = append(jobs, j)
		}
		answers, err := p.Append(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}
		if n := left(t, s, "all.tenants", "acme"); n != 100-3*2 {
			t.Errorf("%d left; in, deferred and perhaps unknown are 3 jobs of cost 2", n)
		}
		if said := answers[6].Rules; len(said) != 2 || said[0].Rule != "all.tenants" || said[1].Rule != "mail.own" {
			t.Errorf("%+v", said)
		}
		next.err = queue.ErrUnavailable
		answers, err = p.Append(t.Context(), jobs[:1])
		if err != nil || !errors.Is(answers[0].Err, queue.ErrUnavailable) {
			t.Errorf("%+v, %v", answers, err)
		}
		next.err = queue.ErrOutcomeUnknown
		if _, err = p.Append(t.Context(), jobs[:1]); err != nil {
			t.Error(err)
		}
		if n := left(t, s, "all.tenants", "acme"); n != 100-4*2 {
			t.Errorf("%d left", n)
		}
	})
}

// If the caller leaves, its takes are still given back.
func TestAppendGivesBackWhenTheCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("all.tenants", 10, nil))
		s.queues["mail"] = []string{"all.tenants"}
		a, _, _ := begin(t, s)
		ctx, leave := context.WithCancel(t.Context())
		p := NewAppender(a, appenderFunc(func(context.Context, []queue.Job) ([]queue.Appended, error) {
			leave()
			return []queue.Appended{{Outcome: queue.Full}}, nil
		}))
		if _, err := p.Append(ctx, []queue.Job{job("mail", "1", "acme")}); err != nil {
			t.Fatal(err)
		}
		if n := left(t, s, "all.tenants", "acme"); n != 10 {
			t.Errorf("%d left of 10", n)
		}
	})
}

type appenderFunc func(context.Context, []queue.Job) ([]queue.Appended, error)

func (f appenderFunc) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return f(ctx, jobs)
}

func TestAppendThatCannotBeDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("all.tenants", 10, nil), rule("all.places", 0, func(r *rules.Rule) {
			r.Algorithm, r.Bound = leaky.AlgorithmConcurrency, rules.Bound{Limit: 1, TTL: unit.Duration(time.Minute)}
		}))
		s.queues["mail"] = []string{"all.tenants"}
		s.queues["lost"] = []string{"all.gone"}
		s.queues["odd"] = []string{"all.places"}
		a, _, _ := begin(t, s)
		next := &taker{answers: map[string]queue.Appended{
			"nowhere": {Outcome: queue.UnknownQueue}, "bad": {Outcome: queue.Invalid},
		}}
		p := NewAppender(a, next)
		costly := job("mail", "costly", "acme")
		costly.Cost = 11
		bad := job("mail", "bad", "acme")
		bad.Cost = -1
		jobs := []queue.Job{
			job("mail", "nolane", ""), costly, job("lost", "1", ""), job("odd", "2", ""), job("none", "nowhere", ""), bad,
			job("mail", "fine", "acme"),
		}
		answers, err := p.Append(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}
		for i, field := range []string{"lane", "cost"} {
			var at *invalid.Error
			if answers[i].Outcome != queue.Invalid || !errors.As(answers[i].Err, &at) || at.Field != field {
				t.Errorf("%+v, want the field %s", answers[i], field)
			}
		}
		for i, rule := range map[int]string{2: "all.gone", 3: "all.places"} { // which is no fault of theirs
			var missing *ruleset.Missing
			if answers[i].Outcome != queue.Failed || !errors.As(answers[i].Err, &missing) || missing.Rule != rule ||
				missing.Queue != jobs[i].Queue {
				t.Errorf("%+v, want that %s cannot be asked", answers[i], rule)
			}
		}
		if !slices.Equal(next.got, []string{"nowhere", "bad", "fine"}) {
			t.Errorf("%v went on", next.got)
		}
		// A queue that is unknown while the store is away.
		s.fail(queue.ErrUnavailable)
		next.got = nil
		answers, err = p.Append(t.Context(), []queue.Job{job("other", "1", "acme"), job("mail", "2", "acme")})
		if err != nil || !errors.Is(answers[0].Err, queue.ErrUnavailable) || answers[1].Outcome != queue.LimitReached ||
			answers[1].RetryAfter != time.Second {
			t.Errorf("%+v, %v", answers, err)
		}
		if len(next.got) > 0 {
			t.Errorf("%v went on", next.got)
		}
	})
}

// A queue without rules of other groups costs only two looks a second.
func TestAppendWithoutRulesOfOtherGroupsAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("mail.own", 1, nil))
		s.queues["mail"], s.queues["plain"] = []string{"mail.own"}, nil
		a, _, _ := begin(t, s)
		p := NewAppender(a, &taker{})
		for range 1000 {
			if _, err := p.Append(t.Context(), []queue.Job{job("mail", "1", "acme"), job("plain", "2", "")}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if takes, gets := s.called("take"), s.called("get"); takes > 0 || gets > 6 {
			t.Errorf("%d takes, %d looks at 2 queues in a second", takes, gets)
		}
	})
}

// Takes from a share while the store was away are given back to the share.
func TestAppendGivesBackToTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("all.tenants", 4, func(r *rules.Rule) { r.Away = rules.AwayShare }))
		s.queues["mail"], s.among = []string{"all.tenants"}, 2
		a, _, _ := begin(t, s)
		next := &taker{answers: map[string]queue.Appended{"full": {Outcome: queue.Full}}}
		p := NewAppender(a, next)
		if _, err := p.Append(t.Context(), []queue.Job{job("mail", "in", "acme")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.fail(queue.ErrUnavailable)
		for range 5 {
			if answers, err := p.Append(t.Context(), []queue.Job{job("mail", "full", "acme")}); err != nil ||
				answers[0].Outcome != queue.Full {
				t.Fatalf("%+v, %v", answers, err)
			}
		}
		if n := passes(t, a, "all.tenants", "acme", 5); n != 2 {
			t.Errorf("%d passed, its share is 2", n)
		}
	})
}

func TestPassAsksTheOwnGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("all.tenants", 1, nil), rule("mail.own", 2, func(r *rules.Rule) { r.Away = rules.AwayShare }))
		s.queues["mail"], s.queues["plain"] = []string{"all.tenants", "mail.own"}, nil
		a, _, _ := begin(t, s)
		if answers, _ := a.Pass(t.Context(), []queue.Job{job("plain", "1", "acme")}); answers != nil {
			t.Errorf("%+v", answers)
		}
		a.Pass(t.Context(), []queue.Job{job("mail", "0", "other")})
		synctest.Wait()
		s.fail(queue.ErrUnavailable)
		jobs := []queue.Job{job("mail", "1", "acme"), job("mail", "2", "acme"), job("mail", "3", "acme")}
		answers, back := a.Pass(t.Context(), jobs)
		if !slices.Equal(outcomes(answers), []string{"accepted", "accepted", "limit_reached"}) {
			t.Fatalf("%v", outcomes(answers))
		}
		back(t.Context(), []int{1})
		if answers, _ = a.Pass(t.Context(), jobs[1:]); !slices.Equal(outcomes(answers), []string{
			"accepted", "limit_reached",
		}) {
			t.Errorf("%v", outcomes(answers))
		}
	})
}

// After an append the process knows the rules of the queue's group, although the engine asks them, once the store is
// away.
func TestPassKnowsRulesOnlyTheEngineAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("mail.own", 2, func(r *rules.Rule) { r.Away = rules.AwayShare }))
		s.queues["mail"] = []string{"mail.own"}
		a, _, _ := begin(t, s)
		if _, err := NewAppender(a, &taker{}).Append(t.Context(), []queue.Job{job("mail", "1", "acme")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.fail(queue.ErrUnavailable)
		answers, _ := a.Pass(t.Context(), []queue.Job{
			job("mail", "2", "acme"), job("mail", "3", "acme"), job("mail", "4", "acme"),
		})
		if !slices.Equal(outcomes(answers), []string{"accepted", "accepted", "limit_reached"}) {
			t.Errorf("%+v", answers)
		}
	})
}
