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
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// maxTakesBody has room for the largest list of takes with their keys.
const maxTakesBody = 2 << 20

// TakeWaiter lets takes wait while a rule refuses them. admission.Admission implements it.
type TakeWaiter interface {
	TakeWait(ctx context.Context, rule string, t rules.Take, within time.Duration) (rules.Taken, error)
	GiveBack(ctx context.Context, rule string, t rules.Take, answer rules.Taken)
}

// takeRequest is what one request asks of a rule: takes, peeks, refunds or resets.
type takeRequest struct {
	takes []rules.Take
	// bad has a problem for each item of a list that is invalid. The others are executed.
	bad []*httpio.Problem
	// receipts are the numbers of the receipts that a refund used up or a take issued.
	receipts []uint64
	// unnamed says that a refund has neither receipt nor lease, so it would free what others took.
	unnamed bool
	list    bool          // the answer is a list
	all     bool          // a reset of all keys
	wait    time.Duration // how long a single take waits
	// asCell says that the answer has the form of redis-cell.
	asCell bool
}

// taking returns a handler for one kind of take.
func taking(op rules.TakeOp) func(*handler, http.ResponseWriter, *http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) { h.askRule(w, r, op) }
}

func (h *handler) askRule(w http.ResponseWriter, r *http.Request, op rules.TakeOp) {
	name := r.PathValue("rule")
	q, p := h.readTakes(r, op)
	if p == nil {
		q.asCell, p = answerForm(r, q, op)
	}
	if p != nil {
		p.Write(w)
		return
	}
	if op == rules.TakeBack && q.unnamed && !may(r.Context(), auth.Operate, name) {
		h.unuse(q)
		p := forbidden("the rule "+name, auth.Operate)
		p.Field, p.Detail = "receipt", p.Detail+
			"; with produce you can refund your own takes, by their receipt or lease"
		p.Write(w)
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
			if errors.Is(err, queue.ErrUnavailable) { // nothing was refunded
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

// unuse makes used receipts valid again, since nothing was refunded.
func (h *handler) unuse(q *takeRequest) {
	for _, number := range q.receipts {
		h.receipts.mark(number, false)
	}
}

// answerTake answers a single take, peek, refund or reset. Only a take can be refused and gets RateLimit headers.
func (h *handler) answerTake(
	w http.ResponseWriter, r *http.Request, name string, op rules.TakeOp, q *takeRequest, a *rules.Taken,
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
		p := httpio.LimitReached(&rules.Ruling{Rule: name, Away: a.Away, MaxKeys: a.MaxKeys, Decision: a.Decision}, "it")
		p.NotAllowed = true
		p.Write(w)
		return
	}
	h.writeJSON(w, r, http.StatusOK, h.shownTaken(r.Context(), name, q, &q.takes[0], a))
}

// answerTakes returns the answer to a list.
func (h *handler) answerTakes(ctx context.Context, name string, q *takeRequest, answers []rules.Taken) wire.AllTaken {
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
			p = takeProblem(a.Err, name)
		}
		*t = wire.Taken{
			Status: p.Reason.Status, RetryAfterMS: httpio.CeilDiv(p.RetryAfter, time.Millisecond),
			Reason: p.Reason.Code, Detail: p.Detail, Field: p.Field,
		}
	}
	return all
}

// shownTaken converts an answer to its form on the wire, with a receipt if there is one.
func (h *handler) shownTaken(
	ctx context.Context, name string, q *takeRequest, asked *rules.Take, a *rules.Taken,
) wire.Taken {
	text, number := h.receiptFor(ctx, name, asked, a)
	if text != "" {
		q.receipts = append(q.receipts, number)
	}
	return wire.Taken{
		Receipt: text,
		Allowed: a.Allowed || a.Shadow, Shadowed: a.Shadow && !a.Allowed, Limit: a.Limit, Remaining: a.Remaining,
		RetryAfterMS: httpio.CeilDiv(a.RetryAfter, time.Millisecond),
		ResetAfterMS: httpio.CeilDiv(a.ResetAfter, time.Millisecond),
		Away:         a.Away, Lease: a.Lease, Take: a.ID, MaxKeys: a.MaxKeys,
	}
}

// failTake answers with an error about a take.
func (h *handler) failTake(w http.ResponseWriter, err error, name string) {
	p := takeProblem(err, name)
	h.logInternal(p, err, name)
	p.Write(w)
}

// takeProblem returns the problem for an error about a take. Unlike most requests, a take must not be repeated.
func takeProblem(err error, name string) *httpio.Problem {
	p := ruleProblem(err, name)
	if p.Reason == httpio.ReasonOutcomeUnknown {
		p.Detail = "the store did not answer in time, so the take may have been counted; a repetition counts again"
	}
	return p
}

// readTakes reads one take, {"key": ...}, or a list of them, {"takes": [...]}.
func (h *handler) readTakes(r *http.Request, op rules.TakeOp) (*takeRequest, *httpio.Problem) {
	if p := httpio.RequireJSON(r); p != nil {
		return nil, p
	}
	body, charged, p := httpio.ReadBody(r, h.account(r), nil, maxTakesBody)
	defer charged.Free()
	if p != nil {
		return nil, p
	}
	if len(body) == 0 { // a rule with a single key needs no body
		body = []byte("{}")
	}
	var v struct {
		Takes jsontext.Value `json:"takes"`
		All   jsontext.Value `json:"all"`
		Wait  *unit.Duration `json:"wait"`
		One   jsontext.Value `json:",embed"`
	}
	if p := httpio.Decode(body, &v, json.RejectUnknownMembers(false)); p != nil {
		return nil, p
	}
	list, all, one := v.Takes != nil, v.All != nil, len(v.One) > 0
	wait, p := waitOf(v.Wait, op, list)
	if p != nil {
		return nil, p
	}
	switch {
	case list && (all || one):
		return nil, &httpio.Problem{
			Reason: httpio.ReasonInvalidRequest, Field: "takes", Detail: "excludes other fields: give either a list or a " +
				"single take",
		}
	case list:
		return h.readTakeList(r, v.Takes, op)
	case all && op != rules.TakeAnew:
		return nil, &httpio.Problem{Reason: httpio.ReasonUnknownField, Field: "all", Detail: "is allowed only for reset"}
	case all && (one || string(v.All) != "true"):
		return nil, &httpio.Problem{
			Reason: httpio.ReasonInvalidRequest, Field: "all", Detail: "must be true and the only field; omit it for one key",
		}
	case all:
		return &takeRequest{all: true}, nil
	case !one:
		v.One = jsontext.Value("{}")
	}
	q := &takeRequest{wait: wait}
	t, p := h.readTake(r, q, v.One, op)
	q.takes = []rules.Take{t}
	return q, p
}

func (h *handler) readTakeList(r *http.Request, raw jsontext.Value, op rules.TakeOp) (*takeRequest, *httpio.Problem) {
	if httpio.TooMany(raw, rules.MaxTakes) {
		return nil, httpio.BadField(
			"takes", "are more than "+strconv.Itoa(rules.MaxTakes)+", must be from 1 to "+strconv.Itoa(rules.MaxTakes),
		)
	}
	var list []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &list) != nil {
		return nil, httpio.BadField("takes", "must be a list")
	}
	if n := len(list); n < 1 || n > rules.MaxTakes {
		return nil, httpio.BadField("takes", "are "+strconv.Itoa(n)+", must be from 1 to "+strconv.Itoa(rules.MaxTakes))
	}
	q := &takeRequest{list: true, takes: make([]rules.Take, 0, len(list)), bad: make([]*httpio.Problem, len(list))}
	for i, raw := range list {
		t, p := h.readTake(r, q, raw, op)
		if q.bad[i] = p; p == nil {
			q.takes = append(q.takes, t)
		}
	}
	return q, nil
}

// readTake reads one item and uses up its receipt. The engine checks what depends on the rule.
func (h *handler) readTake(
	r *http.Request, q *takeRequest, raw jsontext.Value, op rules.TakeOp,
) (rules.Take, *httpio.Problem) {
	var v struct {
		Key     string            `json:"key"`
		Cost    jsontext.Value    `json:"cost"`
		Lease   string            `json:"lease"`
		Receipt string            `json:"receipt"`
		Costs   map[string]*int64 `json:"costs"`
		Take    string            `json:"take"`
		Actual  map[string]*int64 `json:"actual"`
	}
	t := rules.Take{Op: op}
	if p := httpio.Decode(raw, &v); p != nil {
		return t, p
	}
	t.Key, t.Lease, t.ID = v.Key, v.Lease, v.Take
	if p := statedCosts(&t, v.Costs, v.Actual, len(v.Cost) > 0); p != nil {
		return t, p
	}
	if len(v.Cost) > 0 {
		n, err := strconv.ParseInt(string(v.Cost), 10, 64)
		if err != nil || n < 1 || n > leaky.MaxLimit {
			return t, httpio.BadField(
				"cost", "is "+httpio.Shorten(string(v.Cost))+", must be a whole number from 1 to "+strconv.Itoa(leaky.MaxLimit),
			)
		}
		t.Cost = n
	}
	if v.Receipt == "" {
		q.unnamed = q.unnamed || t.Lease == ""
		return t, nil
	}
	if op != rules.TakeBack {
		return t, &httpio.Problem{Reason: httpio.ReasonUnknownField, Field: "receipt", Detail: "is allowed only for refund"}
	}
	number, p := h.redeem(r.Context(), r.PathValue("rule"), &t, v.Receipt)
	if p == nil {
		q.receipts = append(q.receipts, number)
	}
	return t, p
}

// redisCell is the value of the parameter "as" for an answer like that of redis-cell's CL.THROTTLE.
const redisCell = "redis-cell"

// cell is an answer of redis-cell: 1 if limited, the limit, the remaining amount, seconds until a retry (-1 if
// allowed), seconds until a full reset.
type cell [5]int64

func cellOf(a *rules.Taken) cell {
	c := cell{0, a.Limit, a.Remaining, -1, httpio.CeilDiv(a.ResetAfter, time.Second)}
	if !a.Allowed && !a.Shadow {
		c[0], c[3] = 1, httpio.CeilDiv(a.RetryAfter, time.Second)
	}
	return c
}

// answerForm reads the parameter "as".
func answerForm(r *http.Request, q *takeRequest, op rules.TakeOp) (asCell bool, p *httpio.Problem) {
	if !r.URL.Query().Has("as") {
		return false, nil
	}
	switch as := r.URL.Query().Get("as"); {
	case as != redisCell:
		return false, httpio.BadField("as", httpio.Shorten(as)+" must be "+redisCell+"; omit it for a JSON object")
	case op != rules.TakeNow && op != rules.TakePeek:
		return false, httpio.BadField("as", "is allowed only for take and peek")
	case q.list:
		return false, httpio.BadField("as", redisCell+" is not allowed with a list")
	}
	return true, nil
}

// takeWaiting answers a single take that waits.
func (h *handler) takeWaiting(w http.ResponseWriter, r *http.Request, name string, q *takeRequest) {
	ctx, leave, p := h.wait(w, r, q.wait)
	if p != nil {
		p.Write(w)
		return
	}
	defer leave()
	ctx, cancel := h.untilStop(ctx)
	defer cancel()
	t := q.takes[0]
	taken, err := h.o.Waits.TakeWait(ctx, name, t, q.wait)
	switch {
	case r.Context().Err() != nil: // the client is gone
		h.o.Waits.GiveBack(r.Context(), name, t, taken)
		return
	case lost(ctx, w) != nil:
		h.o.Waits.GiveBack(r.Context(), name, t, taken)
		lost(ctx, w).Write(w)
		return
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		stopped(w, "nothing was taken")
		return
	case errors.Is(err, admission.ErrCrowded):
		crowded(w, err.Error())
		return
	case err != nil:
		h.failTake(w, err, name)
		return
	}
	h.tops.taken(r.Context(), name, []rules.Take{t}, []rules.Taken{taken})
	h.answerTake(w, r, name, rules.TakeNow, q, &taken)
	rc := http.NewResponseController(w)
	if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) { // the client has gone
		for _, number := range q.receipts { // the client may have received the receipt
			h.receipts.mark(number, true)
		}
		h.o.Waits.GiveBack(r.Context(), name, t, taken)
	}
}

// waitOf reads the wait of a take.
func waitOf(v *unit.Duration, op rules.TakeOp, list bool) (time.Duration, *httpio.Problem) {
	switch {
	case v == nil:
		return 0, nil
	case op != rules.TakeNow:
		return 0, &httpio.Problem{Reason: httpio.ReasonUnknownField, Field: "wait", Detail: "is allowed only for take"}
	case list:
		return 0, httpio.BadField(
			"wait", "is allowed only for a single take, not for a list of "+strconv.Itoa(rules.MaxTakes),
		)
	}
	return v.D(), checkWait(v.D(), 0)
}
