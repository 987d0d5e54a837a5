package api

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// limitReached is the refusal by a rule.
func limitReached(r *queue.Ruled, detail string) *Problem {
	return &Problem{Reason: ReasonLimitReached, Ruled: r, RetryAfter: max(r.RetryAfter, time.Millisecond), Detail: detail}
}

// limitedJob is that of a job, by the rule that asks to wait longest.
func limitedJob(a *queue.Appended) *Problem {
	name, wait, _ := queue.Limited(a.Rules)
	r := &queue.Ruled{Rule: name}
	for i := range a.Rules {
		if a.Rules[i].Rule == name {
			*r = a.Rules[i]
		}
	}
	r.RetryAfter = max(wait, a.RetryAfter)
	return limitReached(r, "the rule "+name+" refuses the job; retry_after_ms is when it would pass if nobody else takes any")
}

// setLimits tells what the rules said that a job was asked by, but for those that only count.
func (h *handler) setLimits(ctx context.Context, head http.Header, rules []queue.Ruled) {
	_, _, refused := queue.Limited(rules)
	var quotas []admission.Quota
	for i := range rules {
		r := &rules[i]
		if r.Shadow {
			continue
		}
		q := quotaOf(r.Rule, &r.Decision)
		if refused && r.Allowed {
			q.More = 0 // nobody waits for this one
		}
		// Under which key the job was counted is not known here: it may be one with numbers of its own.
		if info, err := h.o.Rules.Rule(ctx, r.Rule); err == nil && len(info.Overrides) == 0 {
			q.Window, q.AtOnce = window(info.Algorithm, info.Bound)
		}
		quotas = append(quotas, q)
	}
	admission.SetFields(head, quotas)
}

// quotaOf is what a rule said. Who was refused is told when he would not be, others when all is as if nothing had been
// taken: Retry-After is never before that.
func quotaOf(name string, d *leaky.Decision) admission.Quota {
	q := admission.Quota{Rule: name, Limit: d.Limit, Remaining: d.Remaining, More: d.ResetAfter}
	if !d.Allowed {
		q.More = d.RetryAfter
	}
	return q
}

// window is in what time so much passes as the limit says: of those that let it come back steadily, until all of it has.
func window(a leaky.Algorithm, b queue.Bound) (w time.Duration, atOnce bool) {
	switch a {
	case leaky.AlgorithmMeter, leaky.AlgorithmTokenBucket:
		n, d := b.Rate.Fraction()
		return time.Duration(math.Ceil(float64(b.Burst)*float64(d)/float64(n))) * time.Microsecond, false
	case leaky.AlgorithmConcurrency:
		return 0, true
	}
	return b.Period.D(), false
}
