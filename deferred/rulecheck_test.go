package deferred

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// porter is a RuleCheck that allows all jobs but "no", and records which were given back.
type porter struct{ asked, back []string }

func (p *porter) pass(_ context.Context, jobs []queue.Job) ([]queue.Appended, func(context.Context, []int)) {
	answers := make([]queue.Appended, len(jobs))
	for i, j := range jobs {
		p.asked = append(p.asked, j.ID)
		answers[i] = queue.Appended{Outcome: queue.Accepted, ID: j.ID, Rules: []rules.Ruling{{Rule: "a.rule"}}}
		if j.ID == "no" {
			answers[i].Outcome, answers[i].RetryAfter = queue.LimitReached, time.Second
		}
	}
	return answers, func(_ context.Context, at []int) {
		for _, i := range at {
			p.back = append(p.back, jobs[i].ID)
		}
	}
}

// While the engine is away the rule check decides about jobs that would bypass it, and learns which of them were not
// stored.
func TestRuleCheck(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	f := &faulty{Engine: r}
	p := &porter{}
	a := New(f, r.stream, p.pass)
	stop := start(t, a.Run)
	known(t, a, "a")
	if x := one(t, a, job("a", "no")); x.Outcome != queue.Accepted || len(p.asked) > 0 {
		t.Fatalf("%+v: the engine is there, and asks the rules itself", x)
	}

	f.set(queue.ErrUnavailable, false, false)
	rejects := job("a", "r")
	rejects.Overflow = queue.Reject
	expired := job("a", "e")
	expired.ExpiresAt = time.Now().Add(-time.Second)
	answers, err := a.Append(t.Context(), []queue.Job{job("a", "1"), job("a", "no"), rejects, expired, job("a", "2")})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.asked, []string{"1", "no", "2"}) || len(p.back) > 0 {
		t.Errorf("asked about %v, handed back %v", p.asked, p.back)
	}
	for i, want := range []queue.AppendOutcome{
		queue.Accepted, queue.LimitReached, queue.Failed, queue.Lapsed, queue.Accepted,
	} {
		if answers[i].Outcome != want {
			t.Errorf("%+v, want %v", answers[i], want)
		}
	}
	if answers[1].RetryAfter != time.Second || len(answers[0].Rules) != 1 || answers[0].State != queue.Deferred {
		t.Errorf("%+v, %+v", answers[0], answers[1])
	}
	if n := onStream(t, r.stream, r.stream.subjects.of("a")); n != 1 { // both in one message
		t.Errorf("%d messages", n)
	}

	// A job that the engine may have counts as undecided, even if the rule check refuses it.
	stop()
	a = New(f, r.stream, p.pass)
	start(t, a.Run)
	f.set(nil, false, false)
	known(t, a, "a")
	f.set(nil, true, false)
	a.patience = 10 * time.Millisecond
	if x := one(t, a, job("a", "no")); x.Outcome != queue.Failed || !errors.Is(x.Err, queue.ErrOutcomeUnknown) {
		t.Errorf("%+v", x)
	}

	// NATS is away as well.
	p.asked = nil
	r.stream.nc.Close()
	if x := one(t, a, job("a", "3")); x.Outcome != queue.Failed {
		t.Errorf("%+v", x)
	}
	if !slices.Equal(p.asked, []string{"3"}) || !slices.Equal(p.back, []string{"3"}) {
		t.Errorf("asked about %v, handed back %v", p.asked, p.back)
	}
}
