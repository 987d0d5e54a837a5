package api

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

//go:embed openapi.json
var openAPIDocument []byte

func (h *handler) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = typeJSON
	_, _ = w.Write(openAPIDocument)
}

// healthz says that the process runs. It asks nobody: a store that is away is no
// reason to restart the ingress.
func (h *handler) healthz(w http.ResponseWriter, r *http.Request) {
	h.writeJSON(w, r, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether jobs can be taken now.
func (h *handler) readyz(w http.ResponseWriter, r *http.Request) {
	if h.o.Stopping.Err() != nil {
		(&Problem{Reason: ReasonStopping, RetryAfter: retryUnavailable, Detail: "this server is stopping"}).write(w)
		return
	}
	if h.o.Draining.Err() != nil {
		(&Problem{
			Reason: ReasonDraining, RetryAfter: retryUnavailable,
			Detail: "this server is about to stop; send requests to another",
		}).write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.o.CheckTimeout)
	defer cancel()
	a, p := h.ability(ctx)
	if p == nil && h.o.Auth != nil {
		if err := h.o.Auth.Ready(); err != nil {
			p = &Problem{Reason: ReasonNotReady, RetryAfter: retryUnavailable, Detail: err.Error()}
		}
	}
	if h.o.Auth == nil {
		a.Auth = "off"
	} else if id, err := h.o.Auth.Identify(r); err != nil || !id.Everything(auth.View) {
		a.Detail = "" // it may name queues, drainers and servers
		if p != nil {
			p.Detail = "GET /readyz with the role view for everything tells why"
		}
	}
	if p != nil {
		p.write(w)
		return
	}
	h.writeJSON(w, r, http.StatusOK, a)
}

// ability says what of its work the server can do, or that it can do none. Of several things that ail it the answer has
// the one that stands first.
func (h *handler) ability(ctx context.Context) (wire.Readiness, *Problem) {
	store := h.engine.Check(ctx)
	overflow, stuck := h.overflowState()
	pulledBack, pulledLate := paceOf(h.o.Pace)
	drainedBack, drainedLate := paceOf(h.o.DrainerPace)
	var undrained, jumped, full, filling string
	if store == nil {
		undrained, jumped, store = h.drainers(ctx)
	}
	var hanging error
	if h.o.Hanging != nil {
		hanging = h.o.Hanging()
	}
	if store == nil {
		full, filling = h.filling(ctx)
	}
	if store != nil && !(h.o.Overflow && overflow == nil && away(store)) {
		detail := store.Error()
		if overflow != nil {
			detail += "; and " + overflow.Error()
		}
		return wire.Readiness{}, &Problem{Reason: ReasonNotReady, RetryAfter: retryUnavailable, Detail: detail}
	}
	for _, ails := range []struct {
		is     bool
		says   wire.Readiness
		before string // what stands before err in the detail
		err    error
	}{
		{
			store != nil,
			wire.Readiness{Store: "unavailable", Overflow: "ok"},
			"only jobs that may be deferred are taken: ", store,
		},
		{
			overflow != nil,
			wire.Readiness{Store: "ok", Overflow: "unavailable"},
			"jobs are taken while there is room, and none is deferred: ", overflow,
		},
		{stuck != nil, wire.Readiness{Store: "ok", Overflow: "stuck"}, "", stuck},
		{filling != "", wire.Readiness{Store: full, Detail: filling}, "", nil},
		{jumped != "", wire.Readiness{Store: "clock", Detail: jumped}, "", nil},
		{
			pulledLate != nil,
			wire.Readiness{Store: "ok", Pull: "late"},
			"jobs are taken, and those of pull queues mostly given back: ",
			pulledLate,
		},
		{undrained != "", wire.Readiness{Store: "ok", Drainers: "none", Detail: undrained}, "", nil},
		{
			drainedLate != nil,
			wire.Readiness{Store: "ok", Drainers: "late"},
			"jobs are taken, and the drainer in this process gives most back: ",
			drainedLate,
		},
		{hanging != nil, wire.Readiness{Store: "ok", Drainers: "hanging"}, "", hanging},
		{
			pulledBack != nil,
			wire.Readiness{Store: "ok", Pull: "releasing"},
			"jobs are taken; of pull queues this server ",
			pulledBack,
		},
		{
			drainedBack != nil,
			wire.Readiness{Store: "ok", Drainers: "releasing"},
			"jobs are taken; the drainer in this process ",
			drainedBack,
		},
	} {
		if !ails.is {
			continue
		}
		ails.says.Status = "degraded"
		if ails.err != nil {
			ails.says.Detail = ails.before + ails.err.Error()
		}
		return ails.says, nil
	}
	return wire.Readiness{Status: "ready"}, nil
}

// drainers says that no drainer lives, if none does, and that the clock of the store jumped, if it did just now. Jobs
// are taken all the same, so neither is a reason to send them elsewhere.
func (h *handler) drainers(ctx context.Context) (undrained, jumped string, err error) {
	d, err := h.engine.Drainers(ctx)
	if err != nil {
		return "", "", err
	}
	if d.Jumping() {
		jumped = fmt.Sprintf("the clock of the store's host jumped %v ago: schedules and expiries go by what it shows now; "+
			"see that its time is kept (timedatectl)", d.Now.Sub(d.Clock.Jumped).Round(time.Second))
	}
	switch {
	case len(d.Seen) > 0:
	case d.Last.IsZero():
		undrained = "jobs are taken, and none leaves: no drainer has ever asked for one; start one with this store"
	default:
		undrained = fmt.Sprintf(
			"jobs are taken, and none leaves: no drainer has asked for one for %v; start one with this store",
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

// filling says that the store fills, or is full; nothing if it has room. Either way this server stays in service:
// what makes room comes through it too.
func (h *handler) filling(ctx context.Context) (state, detail string) {
	s, err := h.engine.Space(ctx)
	switch {
	case err != nil || !s.Filling():
		return "", ""
	case s.Memory && s.Full():
		return "full", fmt.Sprintf(
			"the memory of this process is full: %d of %d bytes live, and no jobs are taken from %d on; let queues drain, "+
				"purge, lower capacity, max_bytes or retention, or give the process more memory",
			s.Used, s.Limit, s.Stop,
		)
	case s.Memory:
		return "filling", fmt.Sprintf(
			"the memory of this process fills: %d of %d bytes live, and no jobs are taken from %d on", s.Used, s.Limit, s.Stop,
		)
	case s.Full():
		return "full", fmt.Sprintf(
			"the store is full: %d of %d bytes are used, and no jobs are taken from %d on; let queues drain, purge, lower "+
				"retention, or give the store more room",
			s.Used, s.Limit, s.Stop,
		)
	}
	return "filling", fmt.Sprintf(
		"the store fills: %d of %d bytes are used, and no jobs are taken from %d on", s.Used, s.Limit, s.Stop,
	)
}

// paceOf asks a pace that may not be known.
func paceOf(pace func() (lacks, err error)) (lacks, err error) {
	if pace == nil {
		return nil, nil
	}
	return pace()
}

// away reports whether an error says that the store was not reached, or did not answer
// in time. One that is not ours, is full or broken was reached.
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
