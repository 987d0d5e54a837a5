package api

import (
	"context"
	"math"
	"net/http"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
)

// getForecast answers when the jobs of a queue leave, at its rate or at another one.
func (h *handler) getForecast(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	rate, p := readRate(r)
	if p != nil {
		p.Write(w)
		return
	}
	l, err := h.engine.Lineup(r.Context(), name)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	var ask queue.ForecastRequest
	if rate != nil {
		spec := l.Spec
		spec.Rate = *rate
		ask.Spec = &spec
	}
	f, err := quote.Curve(&l, ask)
	if err != nil {
		httpio.ProblemOf(err).Write(w)
		return
	}
	keys, err := h.drainedLanes(r.Context(), &l, &f)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, shownForecast(r.Context(), &l, &f, keys))
}

// readRate reads the parameter rate.
func readRate(r *http.Request) (*leaky.Rate, *httpio.Problem) {
	const field = "rate"
	q := r.URL.Query()
	switch {
	case !q.Has(field):
		return nil, nil
	case len(q[field]) > 1:
		return nil, httpio.Duplicate(field)
	}
	rate, err := leaky.ParseRate(q.Get(field))
	if err != nil {
		return nil, httpio.BadField(field, err.Error())
	}
	return &rate, nil
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

func shownForecast(ctx context.Context, l *queue.Lineup, f *queue.Forecast, keys map[int]string) wire.QueueForecast {
	v := wire.QueueForecast{
		Now: l.Now.UTC(), Bends: make([]wire.Bend, 0, len(f.Bends)), FinishAt: instant(f.Finish), Exact: f.Exact,
		Estimated: f.Estimated,
	}
	round := func(v float64) float64 { return math.Round(v*1000) / 1000 }
	for _, b := range f.Bends {
		shown := wire.Bend{
			At: b.At.UTC(), Remaining: round(b.Remaining), Rate: round(b.Rate), Why: string(b.By), Until: instant(b.Until),
			Queue: b.Queue, Reason: b.Reason, Drained: keys[b.Drained],
		}
		if b.Queue != "" && !owns(ctx, b.Queue) {
			shown.Reason = ""
		}
		v.Bends = append(v.Bends, shown)
	}
	return v
}
