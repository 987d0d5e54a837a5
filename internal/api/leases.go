package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

const (
	// maxLeases is the maximum number of leases in one request.
	maxLeases = coalesce.MaxItems
	// maxLeasesBody has room for maxLeases with their reasons.
	maxLeasesBody = 1 << 20

	maxWorkerBytes = 64
	maxTokenBytes  = 128
)

// pullJobs waits until jobs of a pull queue may start, and answers with them.
func (h *handler) pullJobs(w http.ResponseWriter, r *http.Request) {
	if h.o.Pull == nil {
		notFound(w, r)
		return
	}
	ask, p := h.readPull(r)
	if p != nil {
		p.Write(w)
		return
	}
	ctx, leave, p := h.wait(w, r, ask.Wait)
	if p != nil {
		p.Write(w)
		return
	}
	defer leave()
	handed, err := h.o.Pull.Lease(ctx, ask)
	switch {
	case ctx.Err() != nil: // the client is gone
		if handed != nil {
			handed.End(false)
		}
		if p := lost(ctx, w); p != nil {
			p.Write(w)
		}
		return
	case errors.Is(err, pull.ErrCrowded):
		crowded(w, "too many requests are waiting for jobs of this queue")
		return
	case errors.Is(err, pull.ErrOverloaded):
		(&httpio.Problem{
			Reason: httpio.ReasonOverloaded, RetryAfter: httpio.RetryOverloaded, Detail: "too many requests are waiting " +
				"for jobs",
		}).Write(w)
		return
	case err != nil:
		h.fail(w, err, ask.Queue)
		return
	}
	head := w.Header()
	head["Content-Type"] = httpio.TypeJSON
	head["Cache-Control"] = httpio.NoStore
	head["Content-Length"] = []string{strconv.Itoa(len(handed.Body))}
	_, err = w.Write(handed.Body)
	if err == nil && handed.Jobs() > 0 {
		err = http.NewResponseController(w).Flush() // to notice that the client is gone
	}
	handed.End(err == nil || errors.Is(err, http.ErrNotSupported))
}

func (h *handler) readPull(r *http.Request) (pull.Request, *httpio.Problem) {
	ask := pull.Request{Queue: r.PathValue("queue"), Max: 1}
	var v wire.Pull
	if p := h.readJSON(r, maxSmallBody, &v); p != nil {
		return ask, p
	}
	if v.Max != nil {
		ask.Max = *v.Max
	}
	if v.Wait != nil {
		ask.Wait = v.Wait.D()
	}
	ask.Worker = v.Worker
	switch {
	case ask.Max < 1 || ask.Max > queue.MaxReserve:
		return ask, httpio.BadField("max", "is "+strconv.Itoa(ask.Max)+", must be from 1 to "+strconv.Itoa(queue.MaxReserve))
	case len(v.Worker) > maxWorkerBytes || v.Worker != "" && names.ValidateID(v.Worker) != nil:
		return ask, httpio.BadField(
			"worker",
			clip.Quote(v.Worker, httpio.MaxShown)+" must be at most "+strconv.Itoa(maxWorkerBytes)+
				" visible ASCII characters; omit it for none",
		)
	}
	if p := checkWait(ask.Wait, 0); p != nil {
		return ask, p
	}
	if err := names.Validate(ask.Queue); err != nil {
		return ask, httpio.UnknownQueue(ask.Queue)
	}
	return ask, nil
}

var verdicts = map[string]queue.Verdict{
	"delivered": queue.Deliver, "retry": queue.Fail, "dead": queue.Bury, "released": queue.Release, "held": queue.Hold,
	"throttled": queue.Throttle, "down": queue.Down,
}

// settleJobs settles leases. It is idempotent.
func (h *handler) settleJobs(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	var v wire.Settle
	if p := h.readLeases(r, &v, func() int { return len(v.Jobs) }); p != nil {
		p.Write(w)
		return
	}
	list := make([]queue.Settlement, len(v.Jobs))
	var retry *queue.Retry // read when the first retry has no after
	for i := range v.Jobs {
		j := &v.Jobs[i]
		attempt, p := readSettlement(name, i, j, &list[i])
		if p != nil {
			p.Write(w)
			return
		}
		if list[i].Verdict != queue.Fail || j.After != nil {
			continue
		}
		if retry == nil {
			info, err := h.engine.Get(r.Context(), name)
			if err != nil {
				h.fail(w, err, name)
				return
			}
			retry = &info.Spec.Retry
		}
		list[i].After = retry.Backoff(attempt)
	}
	settled, err := h.engine.Settle(r.Context(), list)
	answer := wire.Settled{Jobs: make([]wire.SettledJob, len(settled))}
	o := leaseOutcomes{h: h, name: name, none: true}
	for i, s := range settled {
		v := wire.SettledJob{ID: v.Jobs[i].ID, Stale: s.Stale}
		if !s.Stale && s.Err == nil {
			v.State = &settled[i].State
		}
		v.LeaseFailed = o.add(s.Err, s.Stale)
		answer.Jobs[i] = v
	}
	if err := o.result(r.Context(), err); err != nil {
		h.fail(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, answer)
}

// leaseOutcomes collects the outcomes of the leases in one call.
type leaseOutcomes struct {
	h    *handler
	name string
	err  error // of the first failure
	// none is true while all leases so far were lost. known is true once the outcome of any lease is known.
	none, known bool
}

// add adds the outcome of one lease. It returns the failure, if any.
func (o *leaseOutcomes) add(err error, lost bool) (failed wire.LeaseFailed) {
	o.none = o.none && lost && err == nil
	o.known = o.known || err == nil
	if err == nil {
		return failed
	}
	if o.err == nil {
		o.err = err
	}
	p := httpio.ProblemOf(err)
	o.h.logInternal(p, err, o.name)
	return wire.LeaseFailed{
		Status: p.Reason.Status, Reason: p.Reason.Code, Detail: p.Detail,
		RetryAfterMS: httpio.CeilDiv(p.RetryAfter, time.Millisecond),
	}
}

// result returns the error of the whole call: err, or the first failure if no outcome is known. If all leases were
// lost, it also checks that the queue exists.
func (o *leaseOutcomes) result(ctx context.Context, err error) error {
	switch {
	case err != nil:
		return err
	case !o.known:
		return o.err
	case o.none:
		_, err = o.h.engine.Get(ctx, o.name)
	}
	return err
}

// readSettlement reads the i-th settlement, and returns its attempt.
func readSettlement(name string, i int, j *wire.Settlement, s *queue.Settlement) (attempt int, p *httpio.Problem) {
	if s.Lease, attempt, p = readLease(name, i, &j.Lease); p != nil {
		return 0, p
	}
	at := leaseField(i)
	verdict, ok := verdicts[j.Outcome]
	switch {
	case !ok:
		return 0, httpio.BadField(
			at+"outcome", httpio.Shorten(j.Outcome)+" must be delivered, retry, dead, released, held, throttled or down",
		)
	case j.After != nil && verdict != queue.Fail && verdict != queue.Throttle && verdict != queue.Deliver:
		return 0, httpio.BadField(at+"after", "is allowed only with retry, throttled and delivered")
	case j.After == nil && verdict == queue.Throttle:
		return 0, httpio.BadField(
			at+"after", "is missing; say how long the queue must stop, such as 30s, or 0s if the receiver does not say",
		)
	case j.After != nil && verdict != queue.Fail && (*j.After < 0 || j.After.D() > queue.MaxStop):
		return 0, httpio.BadField(at+"after", "is "+j.After.String()+", must be from 0s to "+queue.MaxStop.String())
	case j.LaneOnly && verdict != queue.Throttle:
		return 0, httpio.BadField(at+"lane_only", "is allowed only with throttled")
	case j.Trouble && verdict != queue.Fail && verdict != queue.Hold:
		return 0, httpio.BadField(at+"trouble", "is allowed only with retry and held; down always counts as trouble")
	case j.After != nil && (*j.After < 0 || j.After.D() > queue.MaxBackoffLimit):
		return 0, httpio.BadField(at+"after", "is "+j.After.String()+", must be from 0s to "+queue.MaxBackoffLimit.String())
	case j.Reason != "" && (verdict == queue.Release || verdict == queue.Deliver && (j.After == nil || *j.After == 0)):
		return 0, httpio.BadField(
			at+"reason",
			"is allowed only with retry, dead, held, throttled and down, and with delivered if after stops the queue",
		)
	case len(j.Reason) > queue.MaxReasonBytes:
		return 0, httpio.TooLarge(at+"reason", "the reason", queue.MaxReasonBytes)
	}
	if s.Actual, p = actualCosts(at+"actual", j.Actual); p != nil {
		return 0, p
	}
	s.Verdict, s.Reason, s.LaneOnly, s.Trouble = verdict, j.Reason, j.LaneOnly, j.Trouble
	if j.After != nil {
		s.After = j.After.D()
	}
	s.Untold = verdict == queue.Throttle && s.After < queue.MinThrottleStop
	return attempt, nil
}

// actualCosts returns the actual costs of a settlement.
func actualCosts(field string, stated map[string]*int64) (map[string]int64, *httpio.Problem) {
	if stated == nil {
		return nil, nil
	}
	actual := make(map[string]int64, len(stated))
	for unit, cost := range stated {
		if cost == nil {
			return nil, httpio.BadField(field+"."+httpio.Shorten(unit), "is null, must be a whole number from 0 to "+
				strconv.Itoa(queue.MaxUnitCost))
		}
		actual[unit] = *cost
	}
	if err := queue.ValidateCosts(field, actual); err != nil {
		return nil, httpio.ProblemOf(err)
	}
	return actual, nil
}

// extendJobs extends leases. It is idempotent.
func (h *handler) extendJobs(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	var v wire.Extend
	if p := h.readLeases(r, &v, func() int { return len(v.Jobs) }); p != nil {
		p.Write(w)
		return
	}
	list := make([]queue.Lease, len(v.Jobs))
	for i := range v.Jobs {
		var p *httpio.Problem
		if list[i], _, p = readLease(name, i, &v.Jobs[i]); p != nil {
			p.Write(w)
			return
		}
	}
	extended, err := h.engine.Extend(r.Context(), list)
	answer := wire.Extended{Jobs: make([]wire.ExtendedJob, len(extended))}
	o := leaseOutcomes{h: h, name: name, none: true}
	for i := range extended {
		e := &extended[i]
		answer.Jobs[i] = wire.ExtendedJob{ID: v.Jobs[i].ID, LeaseFailed: o.add(e.Err, e.Left <= 0)}
		if e.Err == nil {
			left := max(0, e.Left.Milliseconds())
			answer.Jobs[i].ExpiresIn = &left
		}
	}
	if err := o.result(r.Context(), err); err != nil {
		h.fail(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, answer)
}

// readLeases reads a body with at least one lease.
func (h *handler) readLeases(r *http.Request, v any, count func() int) *httpio.Problem {
	if p := httpio.RequireJSON(r); p != nil {
		return p
	}
	body, charged, p := httpio.ReadBody(r, h.account(r), nil, maxLeasesBody)
	defer charged.Free()
	if p != nil {
		return p
	}
	if httpio.TooMany(body, maxLeases) {
		return httpio.BadField(
			"jobs", "are more than "+strconv.Itoa(maxLeases)+", must be from 1 to "+strconv.Itoa(maxLeases),
		)
	}
	if p := httpio.Decode(body, v); p != nil {
		return p
	}
	if n := count(); n < 1 || n > maxLeases {
		return httpio.BadField("jobs", "are "+strconv.Itoa(n)+", must be from 1 to "+strconv.Itoa(maxLeases))
	}
	return nil
}

func readLease(name string, i int, v *wire.Lease) (l queue.Lease, attempt int, p *httpio.Problem) {
	at := leaseField(i)
	if v.ID == "" {
		return l, 0, httpio.BadField(at+"id", "is missing; give the id that came with the job")
	}
	if err := names.ValidateID(v.ID); err != nil {
		p = httpio.ProblemOf(err)
		p.Field = at + "id"
		return l, 0, p
	}
	fence, attempt, ok := pull.ParseToken(v.Lease)
	if !ok || len(v.Lease) > maxTokenBytes {
		return l, 0, httpio.BadField(
			at+"lease", httpio.Shorten(v.Lease)+" is not a lease; give the lease that came with the job",
		)
	}
	return queue.Lease{Queue: name, ID: v.ID, Fence: fence}, attempt, nil
}

func leaseField(i int) string { return "jobs." + strconv.Itoa(i) + "." }

// throttleQueue stops a queue because its receiver asked a worker, or a caller that had its turn, for a delay.
func (h *handler) throttleQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	var v wire.Throttle
	if p := h.readJSON(r, maxSmallBody, &v); p != nil {
		p.Write(w)
		return
	}
	until, err := h.engine.Throttle(r.Context(), name, v.After.D(), v.Reason)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, wire.Throttled{Until: instant(until)})
}
