package api

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
	"github.com/penstock/penstock/queue/status"
	"github.com/penstock/penstock/queue/unit"
)

const defaultTimetable = time.Minute

// getTimetable tells what leaves a queue in the time to come.
func (h *handler) getTimetable(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	span, p := readFor(r)
	if p != nil {
		p.write(w)
		return
	}
	t, err := h.looks.timetables.get(
		r.Context(), timetableOf{h.seenAs(name), span}, mayBeOld(r), func(ctx context.Context) (quote.Timetable, error) {
			return quote.ReadTimetable(ctx, h.engine, name, span)
		},
	)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	seen := visibleTo(r.Context(), &t.Queue)
	v := shownTimetable(&t, seen)
	if seen != &t.Queue {
		hideForeign(&v.Status)
	}
	h.writeJSON(w, r, http.StatusOK, v)
}

// readFor reads how long a time is asked about.
func readFor(r *http.Request) (time.Duration, *Problem) {
	const field = "for"
	q := r.URL.Query()
	switch {
	case !q.Has(field):
		return defaultTimetable, nil
	case len(q[field]) > 1:
		return 0, &Problem{Reason: ReasonDuplicateField, Field: field, Detail: "is given twice"}
	}
	var span unit.Duration
	if err := span.UnmarshalText([]byte(q.Get(field))); err != nil {
		return 0, badField(field, err.Error())
	}
	if span <= 0 || span.D() > quote.MaxSpan {
		return 0, badField(field, "is "+shorten(q.Get(field))+", must be longer than 0s, up to "+quote.MaxSpan.String())
	}
	return span.D(), nil
}

func shownTimetable(t *quote.Timetable, i *queue.Info) wire.Timetable {
	v := wire.Timetable{
		From: t.From.UTC(), Until: t.Until.UTC(), Status: statusOf(i), Departures: []wire.Departure{}, More: t.More,
		Lanes: make([]wire.LaneDepth, 0, len(t.Lanes)), LanesMore: t.LanesMore,
	}
	for _, l := range t.Lanes {
		v.Lanes = append(v.Lanes, wire.LaneDepth(l))
	}
	if s := status.Of(i); s.Ends() != "" {
		v.Standstill = &wire.Standstill{Since: instant(s.Since), Until: instant(s.Until), Ends: s.Ends()}
	}
	for _, d := range t.Departures {
		v.Departures = append(v.Departures, wire.Departure{
			At: d.At.UTC(), ID: d.ID, Lane: d.Lane, Attempt: d.Attempt, Exact: d.Doubt == "", Why: d.Doubt,
		})
	}
	return v
}
