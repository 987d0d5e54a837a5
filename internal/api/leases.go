package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

const (
	// maxLeases is how many leases one request settles or extends.
	maxLeases = coalesce.MaxItems
	// maxLeasesBody has room for so many, with their reasons.
	maxLeasesBody = 1 << 20

	maxWorkerBytes = 64
	maxTokenBytes  = 128
)

// pullJobs waits until jobs of a pull queue may start and answers with them.
func (h *handler) pullJobs(w http.ResponseWriter, r *http.Request) {
	if h.o.Pull == nil {
		notFound(w, r)
		return
	}
	ask, p := h.readPull(r)
	if p != nil {
		p.write(w)
		return
	}
	ctx, leave, p := h.wait(w, r, ask.Wait)
	if p != nil {
		p.write(w)
		return
	}
	defer leave()
	handed, err := h.o.Pull.Lease(ctx, ask)
	switch {
	case ctx.Err() != nil: // nobody reads the answer, or may have it
		if handed != nil {
			handed.End(false)
		}
		if p := lost(ctx, w); p != nil {
			p.write(w)
		}
		return
	case errors.Is(err, pull.ErrCrowded):
		crowded(w, "as many requests wait for jobs of this queue as may")
		return
	case errors.Is(err, pull.ErrOverloaded):
		(&Problem{
			Reason: ReasonOverloaded, RetryAfter: retryOverloaded, Detail: "too many requests wait for jobs at once",
		}).write(w)
		return
	case err != nil:
		h.fail(w, err, ask.Queue)
		return
	}
	head := w.Header()
	head["Content-Type"] = typeJSON
	head["Cache-Control"] = noStore
	head["Content-Length"] = []string{strconv.Itoa(len(handed.Body))}
	_, err = w.Write(handed.Body)
	if err == nil && handed.Jobs() > 0 {
		err = http.NewResponseController(w).Flush() // to hear of a client that has gone
	}
	handed.End(err == nil || errors.Is(err, http.ErrNotSupported))
}

func (h *handler) readPull(r *http.Request) (pull.Request, *Problem) {
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
		return ask, badField("max", "is "+strconv.Itoa(ask.Max)+", must be from 1 to "+strconv.Itoa(queue.MaxReserve))
	case len(v.Worker) > maxWorkerBytes || v.Worker != "" && names.ValidateID(v.Worker) != nil:
		return ask, badField(
			"worker",
			clip.Quote(v.Worker, maxShown)+" must be at most "+strconv.Itoa(maxWorkerBytes)+
				" visible ASCII characters; leave it out for none",
		)
	}
	if p := checkWait(ask.Wait, 0); p != nil {
		return ask, p
	}
	if err := names.Validate(ask.Queue); err != nil {
		return ask, unknownQueue(ask.Queue)
	}
	return ask, nil
}

var verdicts = map[string]queue.Verdict{
	"delivered": queue.Deliver, "retry": queue.Fail, "dead": queue.Bury, "released": queue.Release, "held": queue.Hold,
	"throttled": queue.Throttle, "down": queue.Down,
}

// settleJobs ends leases. It may be repeated.
func (h *handler) settleJobs(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	var v wire.Settle
	if p := h.readLeases(r, &v, func() int { return len(v.Jobs) }); p != nil {
		p.write(w)
		return
	}
	list := make([]queue.Settlement, len(v.Jobs))
	var retry *queue.Retry // of the queue, once one is without an after
	for i := range v.Jobs {
		j := &v.Jobs[i]
		attempt, p := readSettlement(name, i, j, &list[i])
		if p != nil {
			p.write(w)
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
	if err := o.asked(r.Context(), err); err != nil {
		h.fail(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, answer)
}

// leaseOutcomes is what became of the leases of one call.
type leaseOutcomes struct {
	h    *handler
	name string
	err  error // of the first that failed
	// none, while each was lost; known, as soon as it is known what became of one.
	none, known bool
}

// add counts the outcome of one lease, and says why it failed, if it did.
func (o *leaseOutcomes) add(err error, lost bool) (failed wire.LeaseFailed) {
	o.none = o.none && lost && err == nil
	o.known = o.known || err == nil
	if err == nil {
		return failed
	}
	if o.err == nil {
		o.err = err
	}
	p := refused(err)
	o.h.logInternal(p, err, o.name)
	return wire.LeaseFailed{
		Status: p.Reason.Status, Reason: p.Reason.Code, Detail: p.Detail,
		RetryAfterMS: ceilDiv(p.RetryAfter, time.Millisecond),
	}
}

// asked is the error of the whole call: its own, or that of all its leases. Where all leases were lost, there may be
// no such queue.
func (o *leaseOutcomes) asked(ctx context.Context, err error) error {
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

// readSettlement reads one, the ith, and which attempt it is about.
func readSettlement(name string, i int, j *wire.Settlement, s *queue.Settlement) (attempt int, p *Problem) {
	if s.Lease, attempt, p = readLease(name, i, &j.Lease); p != nil {
		return 0, p
	}
	at := leaseField(i)
	verdict, ok := verdicts[j.Outcome]
	switch {
	case !ok:
		return 0, badField(
			at+"outcome", shorten(j.Outcome)+" must be delivered, retry, dead, released, held, throttled or down",
		)
	case j.After != nil && verdict != queue.Fail && verdict != queue.Throttle && verdict != queue.Deliver:
		return 0, badField(at+"after", "can be given with retry, throttled and delivered only")
	case j.After == nil && verdict == queue.Throttle:
		return 0, badField(
			at+"after", "must say for how long nothing shall leave, such as 30s; 0s if the receiver does not say",
		)
	case j.After != nil && verdict != queue.Fail && (*j.After < 0 || j.After.D() > queue.MaxStop):
		return 0, badField(at+"after", "is "+j.After.String()+", must be from 0s to "+queue.MaxStop.String())
	case j.LaneOnly && verdict != queue.Throttle:
		return 0, badField(at+"lane_only", "can be given with throttled only")
	case j.Trouble && verdict != queue.Fail && verdict != queue.Hold:
		return 0, badField(at+"trouble", "can be given with retry and held only; down always is")
	case j.After != nil && (*j.After < 0 || j.After.D() > queue.MaxBackoffLimit):
		return 0, badField(at+"after", "is "+j.After.String()+", must be from 0s to "+queue.MaxBackoffLimit.String())
	case j.Reason != "" && (verdict == queue.Release || verdict == queue.Deliver && (j.After == nil || *j.After == 0)):
		return 0, badField(
			at+"reason",
			"can be given with retry, dead, held, throttled and down only, and with delivered where after stops the queue",
		)
	case len(j.Reason) > queue.MaxReasonBytes:
		return 0, tooLarge(at+"reason", "the reason", queue.MaxReasonBytes)
	}
	s.Verdict, s.Reason, s.LaneOnly, s.Trouble = verdict, j.Reason, j.LaneOnly, j.Trouble
	if j.After != nil {
		s.After = j.After.D()
	}
	s.Untold = verdict == queue.Throttle && s.After < queue.MinThrottleStop
	return attempt, nil
}

// extendJobs moves the deadlines of leases. It may be repeated.
func (h *handler) extendJobs(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	var v wire.Extend
	if p := h.readLeases(r, &v, func() int { return len(v.Jobs) }); p != nil {
		p.write(w)
		return
	}
	list := make([]queue.Lease, len(v.Jobs))
	for i := range v.Jobs {
		var p *Problem
		if list[i], _, p = readLease(name, i, &v.Jobs[i]); p != nil {
			p.write(w)
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
	if err := o.asked(r.Context(), err); err != nil {
		h.fail(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, answer)
}

// readLeases reads a body that names leases, at least one.
func (h *handler) readLeases(r *http.Request, v any, count func() int) *Problem {
	if p := requireJSON(r); p != nil {
		return p
	}
	body, charged, p := h.readBody(r, nil, maxLeasesBody)
	defer charged.free()
	if p != nil {
		return p
	}
	if tooMany(body, maxLeases) {
		return badField("jobs", "are more than "+strconv.Itoa(maxLeases)+", must be from 1 to "+strconv.Itoa(maxLeases))
	}
	if p := decode(body, v); p != nil {
		return p
	}
	if n := count(); n < 1 || n > maxLeases {
		return badField("jobs", "are "+strconv.Itoa(n)+", must be from 1 to "+strconv.Itoa(maxLeases))
	}
	return nil
}

func readLease(name string, i int, v *wire.Lease) (l queue.Lease, attempt int, p *Problem) {
	at := leaseField(i)
	if v.ID == "" {
		return l, 0, badField(at+"id", "is missing; give the id as it came with the job")
	}
	if err := names.ValidateID(v.ID); err != nil {
		p = refused(err)
		p.Field = at + "id"
		return l, 0, p
	}
	fence, attempt, ok := pull.ParseToken(v.Lease)
	if !ok || len(v.Lease) > maxTokenBytes {
		return l, 0, badField(at+"lease", shorten(v.Lease)+" is none; give the lease as it came with the job")
	}
	return queue.Lease{Queue: name, ID: v.ID, Fence: fence}, attempt, nil
}

func leaseField(i int) string { return "jobs." + strconv.Itoa(i) + "." }
