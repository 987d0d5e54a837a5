package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
)

// quoteQueue tells what would become of jobs. It appends none.
func (h *handler) quoteQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	ask, p := h.readQuote(r)
	if p != nil {
		p.write(w)
		return
	}
	info, lane, err := h.engine.Lane(r.Context(), name, ask.Lane)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	q, err := ask.Quote(&info, &lane)
	if err != nil {
		refused(err).write(w)
		return
	}
	expiring, expiringThen, err := h.expiring(r.Context(), &ask, &info)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	answer := wire.Quote{
		Fit: q.Fit, Deferred: q.Deferred, Refused: q.Refused, Paused: q.Paused, PausedUntil: instant(q.Until),
		Now: forecast(q.Now, expiring),
	}
	if q.Refused > 0 {
		answer.RefusedAs = q.RefusedAs.String()
	}
	if q.Then != nil {
		then := forecast(*q.Then, expiringThen)
		answer.Then = &then
	}
	h.writeJSON(w, r, http.StatusOK, answer)
}

// expiring looks at what waits and tells how many would expire, now and at the other rate.
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

func forecast(f quote.Forecast, e quote.Expiring) wire.Forecast {
	return wire.Forecast{
		Rate: f.Rate, FirstAt: instant(f.First), LastAt: instant(f.Last), DrainedAt: instant(f.Drained),
		Expiring: wire.Expiring(e),
	}
}

// readQuote reads a request and checks it. What is given and says nothing is refused: it
// would be answered as something else than was meant.
func (h *handler) readQuote(r *http.Request) (quote.Request, *Problem) {
	var ask quote.Request
	if p := requireJSON(r); p != nil {
		return ask, p
	}
	body, charged, p := h.readBody(r, nil, maxSmallBody)
	defer charged.free()
	if p != nil {
		return ask, p
	}
	var v wire.QuoteRequest
	if p := decode(body, &v); p != nil {
		return ask, p
	}
	if v.Jobs != nil {
		if ask.Jobs = *v.Jobs; ask.Jobs == 0 {
			return ask, badField(
				"jobs", "is 0, must be at least 1; leave it out, and give a rate, to ask about the backlog alone",
			)
		}
	}
	if v.Cost != nil {
		if ask.Cost = *v.Cost; ask.Cost == 0 {
			return ask, badField("cost", "is 0, must be from 1 to "+strconv.Itoa(leaky.MaxCost))
		}
	}
	if v.Lane != nil {
		if ask.Lane = *v.Lane; ask.Lane == "" {
			return ask, badField("lane", "is empty; leave it out for the lane of jobs that name none")
		}
	}
	if v.Rate != nil {
		rate, err := leaky.ParseRate(*v.Rate)
		if err != nil {
			return ask, badField("rate", err.Error())
		}
		ask.Rate = &rate
	}
	if err := ask.Validate(); err != nil {
		return ask, refused(err)
	}
	return ask, nil
}
