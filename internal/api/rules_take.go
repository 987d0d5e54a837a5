package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// maxTakesBody has room for as many questions as may be asked at once, with their keys.
const maxTakesBody = 2 << 20

// questions are what one request asks of a rule.
type questions struct {
	takes []rules.Take
	// bad says of each why it cannot be asked, if it cannot; the others are.
	bad []*Problem
	// receipts are the numbers of the receipts that a refund used up, or that a take was given.
	receipts []uint64
	// unnamed says that a refund names nothing of the caller's own: it frees what others took.
	unnamed bool
	list    bool          // answered by a list
	all     bool          // of a reset: forget all keys
	wait    time.Duration // of a single take
	// asCell is a question that is answered as redis-cell answers.
	asCell bool
}

// asked serves one kind of question to a rule.
func asked(op rules.TakeOp) func(*handler, http.ResponseWriter, *http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) { h.askRule(w, r, op) }
}

func (h *handler) askRule(w http.ResponseWriter, r *http.Request, op rules.TakeOp) {
	name := r.PathValue("rule")
	q, p := h.readQuestions(r, op)
	if p == nil {
		q.asCell, p = answerForm(r, q, op)
	}
	if p != nil {
		p.write(w)
		return
	}
	if op == rules.TakeBack && q.unnamed && !may(r.Context(), auth.Operate, name) {
		h.unuse(q)
		p := forbidden("the rule "+name, auth.Operate)
		p.Field, p.Detail = "receipt", p.Detail+
			"; with produce you give back what you took yourself: by the receipt, or of concurrency by the lease, of the take"
		p.write(w)
		return
	}
	if q.all {
		if err := h.engine.ResetRule(r.Context(), name); err != nil {
			h.failRule(w, err, name)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if q.wait > 0 {
		h.takeWaiting(w, r, name, q)
		return
	}
	var answers []rules.Taken
	if len(q.takes) > 0 {
		var err error
		if answers, err = h.engine.Take(r.Context(), name, q.takes); err != nil {
			if errors.Is(err, queue.ErrUnavailable) { // nothing was given back
				h.unuse(q)
			}
			h.failTake(w, err, name)
			return
		}
	}
	if q.list {
		h.writeJSON(w, r, http.StatusOK, h.answerTakes(r.Context(), name, q, answers))
		return
	}
	h.answerTake(w, r, name, op, q, &answers[0])
}

// unuse makes the receipts good again that questions used up, since nothing was given back for them.
func (h *handler) unuse(q *questions) {
	for _, number := range q.receipts {
		h.receipts.mark(number, false)
	}
}

// answerTake answers a single question. Only a take is refused, and told by the fields of limits: the others ask for no
// leave.
func (h *handler) answerTake(
	w http.ResponseWriter, r *http.Request, name string, op rules.TakeOp, q *questions, a *rules.Taken,
) {
	if a.Err != nil {
		h.failTake(w, a.Err, name)
		return
	}
	if op == rules.TakeNow && !a.Shadow {
		admission.SetFields(w.Header(), []admission.Quota{h.quota(r.Context(), name, q.takes[0].Key, &a.Decision)})
	}
	if q.asCell {
		h.writeJSON(w, r, http.StatusOK, cellOf(a))
		return
	}
	if op == rules.TakeNow && !a.Allowed && !a.Shadow {
		p := limitReached(&rules.Ruling{Rule: name, Away: a.Away, MaxKeys: a.MaxKeys, Decision: a.Decision}, "it")
		p.NotAllowed = true
		p.write(w)
		return
	}
	h.writeJSON(w, r, http.StatusOK, h.shownTaken(r.Context(), name, q, &q.takes[0], a))
}

// answerTakes is the answer to a list.
func (h *handler) answerTakes(ctx context.Context, name string, q *questions, answers []rules.Taken) wire.AllTaken {
	all := wire.AllTaken{Takes: make([]wire.Taken, len(q.bad))}
	next := 0
	for i, p := range q.bad {
		t := &all.Takes[i]
		if p == nil {
			asked, a := &q.takes[next], &answers[next]
			next++
			if a.Err == nil {
				*t = h.shownTaken(ctx, name, q, asked, a)
				t.Status = http.StatusOK
				if !t.Allowed {
					t.Status = http.StatusTooManyRequests
				}
				continue
			}
			p = refusedTake(a.Err, name)
		}
		*t = wire.Taken{
			Status: p.Reason.Status, RetryAfterMS: ceilDiv(p.RetryAfter, time.Millisecond),
			Reason: p.Reason.Code, Detail: p.Detail, Field: p.Field,
		}
	}
	return all
}

// shownTaken shows an answer, with a receipt if it has one.
func (h *handler) shownTaken(
	ctx context.Context, name string, q *questions, asked *rules.Take, a *rules.Taken,
) wire.Taken {
	text, number := h.receiptFor(ctx, name, asked, a)
	if text != "" {
		q.receipts = append(q.receipts, number)
	}
	return wire.Taken{
		Receipt: text,
		Allowed: a.Allowed || a.Shadow, Shadowed: a.Shadow && !a.Allowed, Limit: a.Limit, Remaining: a.Remaining,
		RetryAfterMS: ceilDiv(a.RetryAfter, time.Millisecond), ResetAfterMS: ceilDiv(a.ResetAfter, time.Millisecond),
		Away: a.Away, Lease: a.Lease, MaxKeys: a.MaxKeys,
	}
}

// failTake answers with an engine's error.
func (h *handler) failTake(w http.ResponseWriter, err error, name string) {
	p := refusedTake(err, name)
	h.logInternal(p, err, name)
	p.write(w)
}

// refusedTake tells of an error that, unlike most else, a take cannot be repeated.
func refusedTake(err error, name string) *Problem {
	p := refusedRule(err, name)
	if p.Reason == ReasonOutcomeUnknown {
		p.Detail = "the store did not answer in time: something may have been taken, and asking again takes again"
	}
	return p
}

// readQuestions reads one question, {"key": ...}, or a list of them, {"takes": [...]}.
func (h *handler) readQuestions(r *http.Request, op rules.TakeOp) (*questions, *Problem) {
	if p := requireJSON(r); p != nil {
		return nil, p
	}
	body, charged, p := h.readBody(r, nil, maxTakesBody)
	defer charged.free()
	if p != nil {
		return nil, p
	}
	if len(body) == 0 { // of a rule that counts all under one key there is nothing to say
		body = []byte("{}")
	}
	var v struct {
		Takes jsontext.Value `json:"takes"`
		All   jsontext.Value `json:"all"`
		Wait  *unit.Duration `json:"wait"`
		One   jsontext.Value `json:",embed"`
	}
	if p := decode(body, &v, json.RejectUnknownMembers(false)); p != nil {
		return nil, p
	}
	list, all, one := v.Takes != nil, v.All != nil, len(v.One) > 0
	wait, p := waitOf(v.Wait, op, list)
	if p != nil {
		return nil, p
	}
	switch {
	case list && (all || one):
		return nil, &Problem{
			Reason: ReasonInvalidRequest, Field: "takes", Detail: "stands alone: give either a list, or one question",
		}
	case list:
		return h.readTakes(r, v.Takes, op)
	case all && op != rules.TakeAnew:
		return nil, &Problem{Reason: ReasonUnknownField, Field: "all", Detail: "is a field of reset only"}
	case all && (one || string(v.All) != "true"):
		return nil, &Problem{
			Reason: ReasonInvalidRequest, Field: "all", Detail: "is true, and alone, or left out for one key",
		}
	case all:
		return &questions{all: true}, nil
	case !one:
		v.One = jsontext.Value("{}")
	}
	q := &questions{wait: wait}
	t, p := h.readTake(r, q, v.One, op)
	q.takes = []rules.Take{t}
	return q, p
}

func (h *handler) readTakes(r *http.Request, raw jsontext.Value, op rules.TakeOp) (*questions, *Problem) {
	if tooMany(raw, rules.MaxTakes) {
		return nil, badField(
			"takes", "are more than "+strconv.Itoa(rules.MaxTakes)+", must be from 1 to "+strconv.Itoa(rules.MaxTakes),
		)
	}
	var list []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &list) != nil {
		return nil, badField("takes", "must be a list")
	}
	if n := len(list); n < 1 || n > rules.MaxTakes {
		return nil, badField("takes", "are "+strconv.Itoa(n)+", must be from 1 to "+strconv.Itoa(rules.MaxTakes))
	}
	q := &questions{list: true, takes: make([]rules.Take, 0, len(list)), bad: make([]*Problem, len(list))}
	for i, raw := range list {
		t, p := h.readTake(r, q, raw, op)
		if q.bad[i] = p; p == nil {
			q.takes = append(q.takes, t)
		}
	}
	return q, nil
}

// readTake reads a question, and uses up its receipt. What can be said of it without the rule is said here; the rest is
// the engine's.
func (h *handler) readTake(
	r *http.Request, q *questions, raw jsontext.Value, op rules.TakeOp,
) (rules.Take, *Problem) {
	var v struct {
		Key     string         `json:"key"`
		Cost    jsontext.Value `json:"cost"`
		Lease   string         `json:"lease"`
		Receipt string         `json:"receipt"`
	}
	t := rules.Take{Op: op}
	if p := decode(raw, &v); p != nil {
		return t, p
	}
	t.Key, t.Lease = v.Key, v.Lease
	if len(v.Cost) > 0 {
		n, err := strconv.ParseInt(string(v.Cost), 10, 64)
		if err != nil || n < 1 || n > leaky.MaxLimit {
			return t, badField(
				"cost", "is "+shorten(string(v.Cost))+", must be a whole number from 1 to "+strconv.Itoa(leaky.MaxLimit),
			)
		}
		t.Cost = n
	}
	if v.Receipt == "" {
		q.unnamed = q.unnamed || t.Lease == ""
		return t, nil
	}
	if op != rules.TakeBack {
		return t, &Problem{Reason: ReasonUnknownField, Field: "receipt", Detail: "is a field of refund only"}
	}
	number, p := h.redeem(r.Context(), r.PathValue("rule"), &t, v.Receipt)
	if p == nil {
		q.receipts = append(q.receipts, number)
	}
	return t, p
}
