package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

func (h *handler) listRules(w http.ResponseWriter, r *http.Request) {
	after, limit, p := pageOf(r)
	if p != nil {
		p.write(w)
		return
	}
	infos, err := h.seenRules(r.Context(), after, limit+1) // one more tells whether there is a next page
	if err != nil {
		h.failRule(w, err, "")
		return
	}
	page := wire.Rules{}
	page.Rules, page.Next = pageFrom(
		w, r, infos, limit, shownRuleTo(r.Context()), func(r *wire.Rule) string { return r.Name },
	)
	h.writeJSON(w, r, http.StatusOK, page)
}

func (h *handler) getRule(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("rule")
	info, err := h.looks.rules.get(
		r.Context(), name, mayBeOld(r), func(ctx context.Context) (rules.Info, error) {
			return h.engine.Rule(ctx, name)
		},
	)
	if err != nil {
		h.failRule(w, err, name)
		return
	}
	h.writeRule(w, r, http.StatusOK, shownRuleTo(r.Context())(&info))
}

func (h *handler) putRule(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("rule")
	rule, p := h.readRule(r, name)
	if p != nil {
		p.write(w)
		return
	}
	expect, p := h.expectedRule(r, name)
	if p != nil {
		p.write(w)
		return
	}
	unlock, err := h.onePut(r.Context())
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
		p := refusedRule(err, name)
		p.Revision = result.Revision
		p.write(w)
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
	// As of a queue: the change was made, whatever becomes of reading it, or of the rule meanwhile.
	shown := wire.Rule{Rule: rule, Revision: result.Revision}
	info, err := h.engine.Rule(r.Context(), name)
	if err != nil {
		h.logInternal(refusedRule(err, name), err, name)
	} else if info.Revision == result.Revision {
		shown = shownRuleTo(r.Context())(&info)
	}
	h.writeRule(w, r, status, shown)
}

// mostAsking is how many queues are named that ask a rule.
const mostAsking = 10

func (h *handler) deleteRule(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("rule")
	force, p := forced(r)
	if p != nil {
		p.write(w)
		return
	}
	expect, p := h.expectedRule(r, name)
	if p != nil {
		p.write(w)
		return
	}
	if !force {
		if p := h.inUse(r.Context(), name, expect); p != nil {
			p.write(w)
			return
		}
	}
	err := h.engine.DeleteRule(r.Context(), name, expect)
	if errors.Is(err, rules.ErrInUse) { // by its own group, whatever force says
		info, _ := h.engine.Rule(r.Context(), name) // or it tells without names
		ruleInUse(r.Context(), info.Queues[:min(len(info.Queues), mostAsking)]).write(w)
		return
	}
	if err != nil {
		h.failRule(w, err, name)
		return
	}
	h.tops.forget(name)
	w.WriteHeader(http.StatusNoContent)
}

// inUse refuses to delete a rule that queues of any group name. Those of other groups may be on another server than the
// rule: one that comes to name it in this instant is not seen. What the engine refuses is left to it.
func (h *handler) inUse(ctx context.Context, name string, expect int64) *Problem {
	info, err := h.engine.Rule(ctx, name)
	if errors.Is(err, rules.ErrUnknown) || err == nil && expect != queue.AnyRevision && expect != info.Revision {
		return nil
	}
	var asking []string
	if err == nil {
		asking, err = ruleset.AskedBy(ctx, h.engine, name, mostAsking)
	}
	if err != nil { // a rule is not deleted of which nobody knows who asks it
		p := refusedRule(err, name)
		h.logInternal(p, err, name)
		return p
	}
	if len(asking) == 0 {
		return nil
	}
	return ruleInUse(ctx, asking)
}

func ruleInUse(ctx context.Context, asking []string) *Problem {
	return &Problem{
		Reason: ReasonRuleInUse, Queues: ownNames(ctx, asking),
		Detail: "queues ask this rule: take it out of their rules first. With force=true it is removed if none of them is " +
			"of its own group; then none of their jobs is taken (503 rule_missing) until it is there again, or they do not " +
			"name it",
	}
}

func (h *handler) expectedRule(r *http.Request, name string) (int64, *Problem) {
	return expected(r, func() (int64, *Problem) {
		info, err := h.engine.Rule(r.Context(), name)
		if errors.Is(err, rules.ErrUnknown) {
			return 0, &Problem{Reason: ReasonRevision, Detail: "there is no such rule"}
		}
		if err != nil {
			return 0, refusedRule(err, name)
		}
		return info.Revision, nil
	})
}

// readRule reads the rule of a PUT. The name may be left out of the body; it cannot be another one than the URL's.
func (h *handler) readRule(r *http.Request, name string) (rules.Rule, *Problem) {
	if p := requireJSON(r); p != nil {
		return rules.Rule{}, p
	}
	body, charged, p := h.readBody(r, nil, rules.MaxBytes)
	defer charged.free()
	if p != nil {
		return rules.Rule{}, p
	}
	rule, err := rules.Parse(body)
	if err != nil {
		return rules.Rule{}, refused(err)
	}
	if rule.Name == "" {
		rule.Name = name
	}
	if rule.Name != name {
		return rules.Rule{}, badField("name", "is "+shorten(rule.Name)+" but the URL says "+shorten(name))
	}
	if err := rule.Validate(); err != nil {
		return rules.Rule{}, refused(err)
	}
	if !h.o.Overflow && rule.Action == rules.Defer {
		return rules.Rule{}, noOverflow("action", "set action to reject")
	}
	return rule, nil
}

// shownRule is a rule as it is now.
func shownRule(i *rules.Info) wire.Rule {
	return wire.Rule{
		Rule: i.Rule, Revision: i.Revision, Queues: i.Queues, Keys: &wire.RuleKeys{Held: i.Keys, Max: i.KeyLimit()},
	}
}

// writeRule answers with a rule.
func (h *handler) writeRule(w http.ResponseWriter, r *http.Request, status int, rule wire.Rule) {
	w.Header().Set("ETag", etag(rule.Revision))
	h.writeJSON(w, r, status, rule)
}

// failRule answers with what an engine's error means about a rule.
func (h *handler) failRule(w http.ResponseWriter, err error, name string) {
	p := refusedRule(err, name)
	h.logInternal(p, err, name)
	p.write(w)
}

func refusedRule(err error, name string) *Problem {
	p := refused(err)
	switch p.Reason {
	case ReasonUnknownRule:
		p = unknownRule(name)
	case ReasonOutcomeUnknown:
		p.Detail = "the store did not answer in time: this may or may not have happened"
	}
	return p
}
