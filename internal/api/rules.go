package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

func (h *handler) listRules(w http.ResponseWriter, r *http.Request) {
	after, limit, p := httpio.Page(r)
	if p != nil {
		p.Write(w)
		return
	}
	infos, err := h.seenRules(r.Context(), after, limit+1) // one more shows whether there is a next page
	if err != nil {
		h.failRule(w, err, "")
		return
	}
	page := wire.Rules{}
	page.Rules, page.Next = httpio.NextPage(
		w, r, infos, limit, h.shownRuleTo(r.Context()), func(r *wire.Rule) string { return r.Name },
	)
	h.writeJSON(w, r, http.StatusOK, page)
}

func (h *handler) getRule(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("rule")
	info, err := h.caches.rules.Get(
		r.Context(), name, httpio.MaxAge(r), func(ctx context.Context) (rules.Info, error) {
			return h.engine.Rule(ctx, name)
		},
	)
	if err != nil {
		h.failRule(w, err, name)
		return
	}
	h.writeRule(w, r, http.StatusOK, h.shownRuleTo(r.Context())(&info))
}

func (h *handler) putRule(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("rule")
	rule, p := h.readRule(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	expect, p := h.expectedRule(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	unlock, err := h.lockLimits(r.Context())
	if err != nil {
		h.failRule(w, err, name)
		return
	}
	defer unlock()
	if err := h.allowedRule(r.Context(), name); err != nil {
		h.failRule(w, err, name)
		return
	}
	if err := ruleset.CheckPlaces(r.Context(), h.engine, &rule); err != nil {
		h.failRule(w, err, name)
		return
	}
	result, err := h.engine.PutRule(r.Context(), rule, expect)
	if errors.Is(err, queue.ErrRevision) {
		p := ruleProblem(err, name)
		p.Revision = result.Revision
		p.Write(w)
		return
	}
	if err != nil {
		h.failRule(w, err, name)
		return
	}
	status := http.StatusOK
	if result.Created {
		status = http.StatusCreated
		w.Header().Set("Location", h.o.Prefix+"/v1/rules/"+name)
	}
	// As with queues: the change was made, even if the rule cannot be read now or has changed since.
	shown := wire.Rule{Rule: rule, Revision: result.Revision}
	info, err := h.engine.Rule(r.Context(), name)
	if err != nil {
		h.logInternal(ruleProblem(err, name), err, name)
	} else if info.Revision == result.Revision {
		shown = h.shownRuleTo(r.Context())(&info)
	}
	h.writeRule(w, r, status, shown)
}

// maxUsers is how many of the queues that use a rule are named.
const maxUsers = 10

func (h *handler) deleteRule(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("rule")
	force, p := httpio.Bool(r.URL.Query(), "force")
	if p != nil {
		p.Write(w)
		return
	}
	expect, p := h.expectedRule(r, name)
	if p != nil {
		p.Write(w)
		return
	}
	if !force {
		if p := h.inUse(r.Context(), name, expect); p != nil {
			p.Write(w)
			return
		}
	}
	err := h.engine.DeleteRule(r.Context(), name, expect)
	if errors.Is(err, rules.ErrInUse) { // by queues of its own group; force does not apply to those
		info, _ := h.engine.Rule(r.Context(), name) // on an error no queues are named
		ruleInUse(r.Context(), info.Queues[:min(len(info.Queues), maxUsers)]).Write(w)
		return
	}
	if err != nil {
		h.failRule(w, err, name)
		return
	}
	h.tops.forget(name)
	w.WriteHeader(http.StatusNoContent)
}

// inUse returns a problem if queues of any group use a rule that is to be deleted. Queues of other groups may be on
// another server than the rule, so it can miss a queue that begins to use the rule at this moment. For queues of the
// rule's own group, the engine checks again.
func (h *handler) inUse(ctx context.Context, name string, expect int64) *httpio.Problem {
	info, err := h.engine.Rule(ctx, name)
	if errors.Is(err, rules.ErrUnknown) || err == nil && expect != queue.AnyRevision && expect != info.Revision {
		return nil
	}
	var asking []string
	if err == nil {
		asking, err = ruleset.AskedBy(ctx, h.engine, name, maxUsers)
	}
	if err != nil { // do not delete a rule whose users are unknown
		p := ruleProblem(err, name)
		h.logInternal(p, err, name)
		return p
	}
	if len(asking) == 0 {
		return nil
	}
	return ruleInUse(ctx, asking)
}

func ruleInUse(ctx context.Context, asking []string) *httpio.Problem {
	return &httpio.Problem{
		Reason: httpio.ReasonRuleInUse, Queues: ownNames(ctx, asking),
		Detail: "queues use this rule: remove it from their rules first. With force=true it is deleted if none of them is " +
			"of its own group; their jobs are then refused (503 rule_missing) until the rule exists again, or they no longer " +
			"name it",
	}
}

func (h *handler) expectedRule(r *http.Request, name string) (int64, *httpio.Problem) {
	return httpio.Expected(r, func() (int64, *httpio.Problem) {
		info, err := h.engine.Rule(r.Context(), name)
		if errors.Is(err, rules.ErrUnknown) {
			return 0, &httpio.Problem{Reason: httpio.ReasonRevision, Detail: "there is no such rule"}
		}
		if err != nil {
			return 0, ruleProblem(err, name)
		}
		return info.Revision, nil
	})
}

// readRule reads the rule of a PUT. The body may omit the name, but must not contradict the URL.
func (h *handler) readRule(r *http.Request, name string) (rules.Rule, *httpio.Problem) {
	if p := httpio.RequireJSON(r); p != nil {
		return rules.Rule{}, p
	}
	body, charged, p := httpio.ReadBody(r, h.account(r), nil, rules.MaxBytes)
	defer charged.Free()
	if p != nil {
		return rules.Rule{}, p
	}
	rule, err := rules.Parse(body)
	if err != nil {
		return rules.Rule{}, httpio.ProblemOf(err)
	}
	if rule.Name == "" {
		rule.Name = name
	}
	if rule.Name != name {
		return rules.Rule{}, httpio.BadField(
			"name", "is "+httpio.Shorten(rule.Name)+" but the URL says "+httpio.Shorten(name),
		)
	}
	if err := rule.Validate(); err != nil {
		return rules.Rule{}, httpio.ProblemOf(err)
	}
	if !h.o.Overflow && rule.Action == rules.Defer {
		return rules.Rule{}, noOverflow("action", "set action to reject")
	}
	return rule, nil
}

// shownRule converts a rule to its form on the wire.
func shownRule(i *rules.Info) wire.Rule {
	return wire.Rule{
		Rule: i.Rule, Revision: i.Revision, Queues: i.Queues, Keys: &wire.RuleKeys{Held: i.Keys, Max: i.KeyLimit()},
	}
}

func (h *handler) writeRule(w http.ResponseWriter, r *http.Request, status int, rule wire.Rule) {
	w.Header().Set("ETag", httpio.ETag(rule.Revision))
	h.writeJSON(w, r, status, rule)
}

// failRule answers with an error about a rule.
func (h *handler) failRule(w http.ResponseWriter, err error, name string) {
	p := ruleProblem(err, name)
	h.logInternal(p, err, name)
	p.Write(w)
}

func ruleProblem(err error, name string) *httpio.Problem {
	p := httpio.ProblemOf(err)
	switch p.Reason {
	case httpio.ReasonUnknownRule:
		p = httpio.UnknownRule(name)
	case httpio.ReasonOutcomeUnknown:
		p.Detail = "the store did not answer in time, so the request may or may not have been executed"
	}
	return p
}

// setLimits sets the RateLimit headers for the rules that decided about a job. Rules that only count are left out.
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
			q.More = 0 // this rule allowed the job, so no retry waits for it
		}
		quotas = append(quotas, q)
	}
	admission.SetFields(head, quotas)
}

// quota returns a rule's answer for a key. The key of a job is unknown here and given as ""; the window is then left
// out if overrides could change it.
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
