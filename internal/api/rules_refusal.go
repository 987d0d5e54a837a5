package api

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// limitReached is the refusal of what by a rule, or, while the store cannot be asked, by the rule's away.
func limitReached(r *rules.Ruling, what string) *Problem {
	return &Problem{
		Reason: ReasonLimitReached, Ruled: r, RetryAfter: max(r.RetryAfter, time.Millisecond),
		Detail: admission.Refusal(r.Rule, what, r.Away, r.MaxKeys),
	}
}

// limitedBy is what the rule said that refuses a job, of several the one that asks to wait longest; nil if none does.
func limitedBy(a *queue.Appended) *rules.Ruling {
	name, _, limited := rules.Limited(a.Rules)
	for i := range a.Rules {
		if limited && a.Rules[i].Rule == name {
			r := a.Rules[i]
			return &r
		}
	}
	return nil
}

// limitedJob is that of a job.
func limitedJob(a *queue.Appended) *Problem {
	r := limitedBy(a)
	if r == nil {
		r = &rules.Ruling{}
	}
	r.RetryAfter = max(r.RetryAfter, a.RetryAfter)
	return limitReached(r, "the job")
}

// setLimits tells what the rules said that a job was asked by, but for those that only count.
func (h *handler) setLimits(ctx context.Context, head http.Header, list []rules.Ruling) {
	_, _, refused := rules.Limited(list)
	var quotas []admission.Quota
	for i := range list {
		r := &list[i]
		if r.Shadow {
			continue
		}
		q := h.quota(ctx, r.Rule, "", &r.Decision)
		if refused && r.Allowed {
			q.More = 0 // nobody waits for this one
		}
		quotas = append(quotas, q)
	}
	admission.SetFields(head, quotas)
}

// quota is what a rule said under a key; "" is any: which one it was of a job is not known here. Under any key nothing
// is said of a window that may be another one for some.
func (h *handler) quota(ctx context.Context, name, key string, d *leaky.Decision) admission.Quota {
	r, _, err := h.o.Rule(ctx, name)
	if err != nil {
		r = rules.Rule{Name: name}
	}
	q := admission.QuotaOf(&r, key, d)
	if key == "" && len(r.Overrides) > 0 {
		q.Window = 0
	}
	return q
}
