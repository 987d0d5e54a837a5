package api

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
	"github.com/penstock/penstock/queue/status"
	"github.com/penstock/penstock/queue/unit"
)

// quoteQueue answers what would happen to jobs if they were appended now. It appends none.
func (h *handler) quoteQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	ask, p := h.readQuote(r)
	if p != nil {
		p.Write(w)
		return
	}
	info, lane, err := h.engine.Lane(r.Context(), name, ask.Lane)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	lineup, err := h.engine.Lineup(r.Context(), name)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	q, err := ask.Quote(&lineup, &lane)
	if err != nil {
		httpio.ProblemOf(err).Write(w)
		return
	}
	expiring, expiringThen, err := h.expiring(r.Context(), &ask, &info)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	answer := wire.Quote{
		Fit: q.Fit, Deferred: q.Deferred, Refused: q.Refused, Paused: q.Paused, PausedUntil: instant(q.Until),
		Now: shownDates(q.Now, expiring),
	}
	if q.Refused > 0 {
		answer.RefusedAs = q.RefusedAs.String()
	}
	if q.Then != nil {
		then := shownDates(*q.Then, expiringThen)
		answer.Then = &then
	}
	h.writeJSON(w, r, http.StatusOK, answer)
}

// expiring counts the waiting jobs that would expire, at the present rate and at the requested one.
func (h *handler) expiring(
	ctx context.Context, ask *quote.Request, info *queue.Info,
) (now, then quote.Expiring, err error) {
	backlog := quote.Backlog{}
	if info.Waiting > 0 {
		if backlog, err = quote.ReadBacklog(ctx, h.engine, info.Spec.Name); err != nil {
			return now, then, err
		}
	}
	return ask.Expiring(info, &backlog)
}

func shownDates(d quote.Dates, e quote.Expiring) wire.QuoteDates {
	return wire.QuoteDates{
		Rate: d.Rate, FirstAt: instant(d.First), LastAt: instant(d.Last), DrainedAt: instant(d.Drained),
		Never: string(d.Never), Exact: d.Exact, Expiring: wire.Expiring(e),
	}
}

// readQuote reads and checks a request. Empty values are refused, since the answer would not be to the question that
// the caller meant.
func (h *handler) readQuote(r *http.Request) (quote.Request, *httpio.Problem) {
	var ask quote.Request
	if p := httpio.RequireJSON(r); p != nil {
		return ask, p
	}
	body, charged, p := httpio.ReadBody(r, h.account(r), nil, maxSmallBody)
	defer charged.Free()
	if p != nil {
		return ask, p
	}
	var v wire.QuoteRequest
	if p := httpio.Decode(body, &v); p != nil {
		return ask, p
	}
	if v.Jobs != nil {
		if ask.Jobs = *v.Jobs; ask.Jobs == 0 {
			return ask, httpio.BadField(
				"jobs", "is 0, must be at least 1; to quote only the jobs in the queue, omit it and give a rate",
			)
		}
	}
	if v.Cost != nil {
		if ask.Cost = *v.Cost; ask.Cost == 0 {
			return ask, httpio.BadField("cost", "is 0, must be from 1 to "+strconv.Itoa(leaky.MaxCost))
		}
	}
	if v.Lane != nil {
		if ask.Lane = *v.Lane; ask.Lane == "" {
			return ask, httpio.BadField("lane", "is empty; omit it for the lane of jobs without a key")
		}
	}
	if v.Rate != nil {
		rate, err := leaky.ParseRate(*v.Rate)
		if err != nil {
			return ask, httpio.BadField("rate", err.Error())
		}
		ask.Rate = &rate
	}
	if err := ask.Validate(); err != nil {
		return ask, httpio.ProblemOf(err)
	}
	return ask, nil
}

const defaultTimetable = time.Minute

// getTimetable answers with the coming departures of a queue.
func (h *handler) getTimetable(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	span, p := readFor(r)
	if p != nil {
		p.Write(w)
		return
	}
	t, err := h.caches.timetables.Get(
		r.Context(), timetableKey{h.seenAs(name), span}, httpio.MaxAge(r),
		func(ctx context.Context) (quote.Timetable, error) {
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

// readFor reads the parameter for: how far the timetable reaches.
func readFor(r *http.Request) (time.Duration, *httpio.Problem) {
	const field = "for"
	q := r.URL.Query()
	switch {
	case !q.Has(field):
		return defaultTimetable, nil
	case len(q[field]) > 1:
		return 0, httpio.Duplicate(field)
	}
	var span unit.Duration
	if err := span.UnmarshalText([]byte(q.Get(field))); err != nil {
		return 0, httpio.BadField(field, err.Error())
	}
	if span <= 0 || span.D() > quote.MaxSpan {
		return 0, httpio.BadField(
			field, "is "+httpio.Shorten(q.Get(field))+", must be longer than 0s, up to "+quote.MaxSpan.String(),
		)
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

// getForecast answers when the jobs of a queue leave, with its settings or with assumed ones.
func (h *handler) getForecast(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	settings, p := readAssumed(r)
	if p != nil {
		p.Write(w)
		return
	}
	age := httpio.MaxAge(r)
	if len(settings) > 0 {
		age = 0 // which settings may be assumed depends on the caller
	}
	f, err := h.caches.forecasts.Get(r.Context(), h.seenAs(name), age, func(ctx context.Context) (sharedForecast, error) {
		return h.forecastAt(ctx, name, settings)
	})
	if err != nil {
		h.fail(w, err, name)
		return
	}
	v := shownForecast(r.Context(), f.now, &f.of, f.keys)
	v.Unchanged = f.unchanged
	h.writeJSON(w, r, http.StatusOK, v)
}

// forecastAt reads a queue and returns its forecast with settings.
func (h *handler) forecastAt(ctx context.Context, name string, settings []string) (f sharedForecast, err error) {
	l, err := h.engine.Lineup(ctx, name)
	if err != nil {
		return f, err
	}
	f.now = l.Now
	if f.of, f.unchanged, err = h.forecastWith(ctx, &l, settings); err != nil {
		return f, err
	}
	f.keys, err = h.drainedLanes(ctx, &l, &f.of)
	f.of.Lanes = nil // may be long, and no answer has them
	return f, err
}

// forecastWith returns the forecast with settings, and the end of the forecast without them, nil if there are none.
func (h *handler) forecastWith(
	ctx context.Context, l *queue.Lineup, settings []string,
) (f queue.Forecast, unchanged *wire.ForecastEnd, err error) {
	f, err = quote.Curve(l, queue.ForecastRequest{})
	if err != nil || len(settings) == 0 {
		return f, nil, err
	}
	unchanged = &wire.ForecastEnd{FinishAt: instant(f.Finish), Exact: f.Exact}
	spec, err := h.assumed(ctx, l, settings)
	if err == nil {
		f, err = quote.Curve(l, queue.ForecastRequest{Spec: spec})
	}
	return f, unchanged, err
}

// drainedLanes returns the keys of the lanes whose end bends the curve, by their index. A lane that has emptied
// meanwhile has no key.
func (h *handler) drainedLanes(ctx context.Context, l *queue.Lineup, f *queue.Forecast) (map[int]string, error) {
	keys := map[int]string{}
	for _, b := range f.Bends {
		if b.Drained < 0 || l.Lanes[b.Drained].Digest == (queue.LaneDigest{}) {
			continue
		}
		digest := l.Lanes[b.Drained].Digest
		page, err := h.engine.Lanes(ctx, queue.LanesRequest{Queue: l.Spec.Name, After: digest.Before(), Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(page.Lanes) == 1 && page.Lanes[0].Digest == digest {
			keys[b.Drained] = page.Lanes[0].Key
		}
	}
	return keys, nil
}

func shownForecast(ctx context.Context, now time.Time, f *queue.Forecast, keys map[int]string) wire.QueueForecast {
	v := wire.QueueForecast{
		Now: now.UTC(), Bends: make([]wire.Bend, 0, len(f.Bends)), FinishAt: instant(f.Finish), Exact: f.Exact,
		Estimated: f.Estimated,
	}
	for n := range f.Bends {
		v.Bends = append(v.Bends, shownBend(ctx, &f.Bends[n], keys[f.Bends[n].Drained]))
	}
	return v
}

// shownBend converts a bend to what the caller may see of it. drained is the key of its lane.
func shownBend(ctx context.Context, b *queue.Bend, drained string) wire.Bend {
	v := wire.Bend{
		At: b.At.UTC(), Remaining: toMillionth(b.Remaining), Rate: toMillionth(b.Rate), Why: string(b.By),
		Until: instant(b.Until), Queue: b.Queue, Reason: b.Reason, Drained: drained,
	}
	if b.Queue != "" && !owns(ctx, b.Queue) {
		v.Reason = ""
	}
	return v
}

// toMillionth rounds to a millionth: 1/h is 0.000278/s.
func toMillionth(v float64) float64 { return math.Round(v*1e6) / 1e6 }
