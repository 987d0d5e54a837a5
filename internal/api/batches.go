package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
)

// Limits of a page of batches: each unfinished batch costs a read for each of its lanes.
const (
	batchesPage    = 20
	maxBatchesPage = 100
)

// listBatches answers with a page of the batches of a queue.
func (h *handler) listBatches(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if p := httpio.Once(q, "after", "limit"); p != nil {
		p.Write(w)
		return
	}
	limit, p := httpio.Limit(q, batchesPage, maxBatchesPage)
	if p != nil {
		p.Write(w)
		return
	}
	name := r.PathValue("queue")
	list, p, err := h.batches(r, queue.BatchesRequest{Queue: name, After: q.Get("after"), Limit: limit + 1})
	switch {
	case p != nil:
		p.Write(w)
	case err != nil:
		h.fail(w, err, name)
	default:
		page := wire.Batches{Batches: list[:min(len(list), limit)]}
		if len(list) > limit {
			page.Next = list[limit-1].Batch
		}
		h.writeJSON(w, r, http.StatusOK, page)
	}
}

// getBatch answers with a batch.
func (h *handler) getBatch(w http.ResponseWriter, r *http.Request) {
	name, label := r.PathValue("queue"), r.PathValue("batch")
	if err := queue.ValidateBatch(label); err != nil {
		httpio.ProblemOf(err).Write(w)
		return
	}
	list, p, err := h.batches(r, queue.BatchesRequest{Queue: name, Label: label, Limit: 1})
	switch {
	case p != nil:
		p.Write(w)
	case err != nil:
		h.fail(w, err, name)
	case len(list) == 0:
		(&httpio.Problem{
			Reason: httpio.ReasonUnknownBatch, Detail: "the queue has no batch with this label, or has forgotten it",
		}).Write(w)
	default:
		h.writeJSON(w, r, http.StatusOK, list[0])
	}
}

// batches reads batches with their finish.
func (h *handler) batches(r *http.Request, req queue.BatchesRequest) ([]wire.Batch, *httpio.Problem, error) {
	found, err := h.engine.Batches(r.Context(), req)
	if err != nil {
		return nil, nil, err
	}
	list := make([]wire.Batch, len(found))
	var f *batchForecast
	for i := range found {
		list[i] = shownBatch(&found[i])
		if list[i].Remaining <= 0 {
			continue
		}
		if f == nil {
			if f, err = h.newBatchForecast(r.Context(), req.Queue); err != nil {
				return nil, nil, err
			}
		}
		if p, err := h.setFinish(r, f, &found[i], &list[i]); p != nil || err != nil {
			return nil, p, err
		}
	}
	return list, nil, nil
}

func shownBatch(b *queue.Batch) wire.Batch {
	return wire.Batch{
		Batch: b.Label, Accepted: b.Accepted, Remaining: b.Remaining(), Delivered: b.Delivered, Dead: b.Dead,
		Cancelled: b.Cancelled, Expired: b.Expired, Missing: b.Missing, Failures: b.Dead + b.Expired,
		FirstAt: instant(b.FirstAt), LastAt: instant(b.LastAt), EndedAt: instant(b.EndedAt),
	}
}

// batchForecast is what the finish of batches needs of their queue.
type batchForecast struct {
	queue  string
	finish time.Time                     // when the queue is empty; zero is never
	never  map[queue.LaneDigest]struct{} // lanes that are never empty
	last   queue.Bend                    // why jobs never leave
}

func (h *handler) newBatchForecast(ctx context.Context, name string) (*batchForecast, error) {
	l, err := h.engine.Lineup(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := quote.Curve(&l, queue.ForecastRequest{})
	if err != nil {
		return nil, err
	}
	f := &batchForecast{queue: name, finish: c.Finish, never: map[queue.LaneDigest]struct{}{}}
	if len(c.Bends) > 0 {
		f.last = c.Bends[len(c.Bends)-1]
	}
	for i, at := range c.Lanes {
		if at.IsZero() {
			f.never[l.Lanes[i].Digest] = struct{}{}
		}
	}
	return f, nil
}

// setFinish sets when the last of a batch's waiting jobs leaves: the latest ETA of the last jobs of its lanes. If not
// all of these are known, all that is known is when the whole queue is empty: a batch has too many lanes, or a job that
// may have been the last of its lane was cancelled or expired.
func (h *handler) setFinish(
	r *http.Request, f *batchForecast, b *queue.Batch, to *wire.Batch,
) (*httpio.Problem, error) {
	var last time.Time
	var held queue.Why
	to.Exact = !b.MoreLanes
	for _, id := range b.Lasts {
		info, charge, p, err := h.readJob(r, f.queue, id)
		charge.Free()
		switch {
		case p != nil:
			return p, nil
		case errors.Is(err, queue.ErrUnknownJob):
			continue
		case err != nil:
			return nil, err
		}
		at, exact := info.ETA.At, info.ETA.Exact
		switch info.State {
		case queue.Waiting, queue.Scheduled, queue.Deferred:
			if _, never := f.never[queue.DigestLane(info.Lane)]; never || f.finish.IsZero() && len(f.never) == 0 {
				to.FinishAt, to.Exact, to.SlowestLane, to.Why = nil, false, info.Lane, f.last.By
				return nil, nil
			}
		case queue.Leased:
			at = info.DueAt
		case queue.Held:
			held = info.Why
			continue
		default:
			continue
		}
		if to.Exact = to.Exact && exact; at.After(last) {
			last, to.SlowestLane = at, info.Lane
		}
	}
	switch {
	case !last.IsZero() && !b.MoreLanes && b.Cancelled+b.Expired == 0:
		to.FinishAt = instant(last)
	case held.By != "":
		to.Exact, to.Why = false, held.By
	case f.finish.IsZero():
		to.Exact, to.Why = false, f.last.By
	default:
		to.FinishAt, to.Exact, to.AtMost = instant(f.finish), false, true
	}
	return nil, nil
}
