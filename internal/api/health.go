package api

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// openAPIDocument is openapi.json without spaces between its values.
//
//go:embed openapi.min.json
var openAPIDocument []byte

func (h *handler) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = httpio.TypeJSON
	_, _ = w.Write(openAPIDocument)
}

// OverflowState reports how the overflow is doing. Its methods do not block.
type OverflowState interface {
	// Connected returns nil, or why jobs cannot be put on the overflow now.
	Connected() error
	// Stuck returns nil, or why deferred jobs do not come back, as far as this process readmits them.
	Stuck() error
}

// healthz reports that the process runs. It does not check the store: restarting the ingress does not bring a store
// back.
func (h *handler) healthz(w http.ResponseWriter, r *http.Request) {
	h.writeJSON(w, r, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz reports whether jobs can be accepted now.
func (h *handler) readyz(w http.ResponseWriter, r *http.Request) {
	if h.o.Stopping.Err() != nil {
		(&httpio.Problem{
			Reason: httpio.ReasonStopping, RetryAfter: httpio.RetryUnavailable, Detail: "this server is stopping",
		}).Write(w)
		return
	}
	if h.o.Draining.Err() != nil {
		(&httpio.Problem{
			Reason: httpio.ReasonDraining, RetryAfter: httpio.RetryUnavailable,
			Detail: "this server is about to stop; send requests to another",
		}).Write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.o.CheckTimeout)
	defer cancel()
	a, p := h.readiness(ctx)
	if p == nil && h.o.Auth != nil {
		if err := h.o.Auth.Ready(); err != nil {
			p = &httpio.Problem{Reason: httpio.ReasonNotReady, RetryAfter: httpio.RetryUnavailable, Detail: err.Error()}
		}
	}
	if h.o.Auth == nil {
		a.Auth = "off"
	} else if id, err := h.o.Auth.Identify(r); err != nil || !id.Everything(auth.View) {
		a.Detail = "" // the detail may name queues, drainers and servers
		if p != nil {
			p.Detail = "GET /readyz with the role view for everything shows the reason"
		}
	}
	if p != nil {
		p.Write(w)
		return
	}
	h.writeJSON(w, r, http.StatusOK, a)
}

// readiness returns the state of the server, or a problem if it can accept no jobs.
func (h *handler) readiness(ctx context.Context) (wire.Readiness, *httpio.Problem) {
	c := h.check(ctx)
	if c.store != nil && !(h.o.Overflow && c.overflow == nil && away(c.store)) {
		detail := c.store.Error()
		if c.overflow != nil {
			detail += "; and " + c.overflow.Error()
		}
		return wire.Readiness{}, &httpio.Problem{
			Reason: httpio.ReasonNotReady, RetryAfter: httpio.RetryUnavailable, Detail: detail,
		}
	}
	for _, d := range c.defects() {
		if d.err != nil || d.Detail != "" {
			if d.Status = "degraded"; d.err != nil {
				d.Detail = d.before + d.err.Error()
			}
			return d.Readiness, nil
		}
	}
	return wire.Readiness{Status: "ready"}, nil
}

// checks are the results of the checks behind readiness. nil and empty mean no defect.
type checks struct {
	store, overflow, stuck   error
	pulledBack, pulledLate   error // of pull queues
	drainedBack, drainedLate error // of the drainer in this process
	hanging                  error
	undrained, jumped        string
	space, filling           string
}

func (h *handler) check(ctx context.Context) (c checks) {
	c.store = h.engine.Check(ctx)
	c.overflow, c.stuck = h.overflowState()
	c.pulledBack, c.pulledLate = paceOf(h.o.Pace)
	c.drainedBack, c.drainedLate = paceOf(h.o.DrainerPace)
	if c.store == nil {
		c.undrained, c.jumped, c.store = h.drainers(ctx)
	}
	if h.o.Hanging != nil {
		c.hanging = h.o.Hanging()
	}
	if c.store == nil {
		c.space, c.filling = h.filling(ctx)
	}
	return c
}

// defect is a way in which a server can be degraded. It applies if it has an err or a Detail.
type defect struct {
	wire.Readiness
	before string // precedes err in the detail
	err    error
}

// defects returns all possible defects, the most important first.
func (c *checks) defects() []defect {
	return []defect{
		{wire.Readiness{Store: "unavailable", Overflow: "ok"}, "only jobs that may be deferred are accepted: ", c.store},
		{
			wire.Readiness{Store: "ok", Overflow: "unavailable"},
			"jobs are accepted while there is room, but not deferred: ", c.overflow,
		},
		{wire.Readiness{Store: "ok", Overflow: "stuck"}, "", c.stuck},
		{wire.Readiness{Store: c.space, Detail: c.filling}, "", nil},
		{wire.Readiness{Store: "clock", Detail: c.jumped}, "", nil},
		{
			wire.Readiness{Store: "ok", Pull: "late"},
			"jobs are accepted, but most jobs of pull queues are released: ", c.pulledLate,
		},
		{wire.Readiness{Store: "ok", Drainers: "none", Detail: c.undrained}, "", nil},
		{
			wire.Readiness{Store: "ok", Drainers: "late"},
			"jobs are accepted, but the drainer in this process releases most of them: ", c.drainedLate,
		},
		{wire.Readiness{Store: "ok", Drainers: "hanging"}, "", c.hanging},
		{wire.Readiness{Store: "ok", Pull: "releasing"}, "jobs are accepted; for pull queues, this server ", c.pulledBack},
		{
			wire.Readiness{Store: "ok", Drainers: "releasing"},
			"jobs are accepted; the drainer in this process ", c.drainedBack,
		},
	}
}

// drainers returns undrained if no drainer is alive, and jumped if the clock of the store jumped recently. Both are
// texts for the operator. Jobs are still accepted, so neither is a reason to send them elsewhere.
func (h *handler) drainers(ctx context.Context) (undrained, jumped string, err error) {
	d, err := h.engine.Drainers(ctx)
	if err != nil {
		return "", "", err
	}
	if d.Jumping() {
		jumped = fmt.Sprintf("the clock of the store's host jumped %v ago, and schedules and expiries follow it; "+
			"check its time synchronization (timedatectl)", d.Now.Sub(d.Clock.Jumped).Round(time.Second))
	}
	switch {
	case len(d.Seen) > 0:
	case d.Last.IsZero():
		undrained = "jobs are accepted, but none depart: no drainer has ever used this store; start one"
	default:
		undrained = fmt.Sprintf(
			"jobs are accepted, but none depart: no drainer has used this store for %v; start one",
			d.Now.Sub(d.Last).Round(time.Second),
		)
	}
	return undrained, jumped, nil
}

func (h *handler) overflowState() (away, stuck error) {
	if !h.o.Overflow || h.o.OverflowState == nil {
		return nil, nil
	}
	return h.o.OverflowState.Connected(), h.o.OverflowState.Stuck()
}

// filling returns "full" or "filling" if the store is full or nearly full, else "", and a text for the operator. The
// server stays in service either way: requests that free space come through it too.
func (h *handler) filling(ctx context.Context) (state, detail string) {
	s, err := h.engine.Space(ctx)
	switch {
	case err != nil || !s.Filling():
		return "", ""
	case s.Memory && s.Full():
		return "full", fmt.Sprintf(
			"the memory of this process is full: %d of %d bytes are in use, and the limit for new jobs is %d; let queues "+
				"drain, "+
				"purge, lower capacity, max_bytes or retention, or give the process more memory",
			s.Used, s.Limit, s.Stop,
		)
	case s.Memory:
		return "filling", fmt.Sprintf(
			"the memory of this process is nearly full: %d of %d bytes are in use, and the limit for new jobs is %d",
			s.Used, s.Limit, s.Stop,
		)
	case s.Full():
		return "full", fmt.Sprintf(
			"the store is full: %d of %d bytes are in use, and the limit for new jobs is %d; let queues drain, purge, lower "+
				"retention, or give the store more room",
			s.Used, s.Limit, s.Stop,
		)
	}
	return "filling", fmt.Sprintf(
		"the store is nearly full: %d of %d bytes are in use, and the limit for new jobs is %d",
		s.Used, s.Limit, s.Stop,
	)
}

// paceOf calls pace, if there is one.
func paceOf(pace func() (lacks, err error)) (lacks, err error) {
	if pace == nil {
		return nil, nil
	}
	return pace()
}

// away reports whether an error means that the store was not reached, or did not answer in time. A store that is not
// ours, full or corrupt was reached.
func away(err error) bool {
	return !errors.Is(err, queue.ErrNoStore) && (errors.Is(err, queue.ErrUnavailable) ||
		errors.Is(err, queue.ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded))
}

func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	if h.o.Metrics == nil {
		notFound(w, r)
		return
	}
	sees := mayView(r.Context())
	if sees == nil {
		h.o.Metrics.ServeHTTP(w, r)
		return
	}
	h.o.OwnMetrics(appNameOf(r.Context()), sees).ServeHTTP(w, r)
}
