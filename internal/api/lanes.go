package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
)

// lanesKey identifies a page of the lanes of a queue.
type lanesKey struct {
	seenAs
	offset, limit int
}

// rankedLanes is a page of the lanes of a queue as of a Lineup, the slowest first.
type rankedLanes struct {
	queue.Info
	queue.Forecast
	page   []rankedLane
	ranked int // lanes on all pages
	never  int // lanes on all pages that never empty
}

// rankedLane is a lane with the time when its last job leaves; zero is never.
type rankedLane struct {
	*queue.LaneState
	finish time.Time
}

// listLanes answers with the lanes of a queue that have waiting jobs, and when each will be empty, the slowest first.
func (h *handler) listLanes(w http.ResponseWriter, r *http.Request) {
	name, values := r.PathValue("queue"), r.URL.Query()
	if p := httpio.Once(values, "limit", "offset"); p != nil {
		p.Write(w)
		return
	}
	limit, p := httpio.Limit(values, httpio.DefaultPage, queue.MaxLanesPage)
	offset, p2 := readOffset(values.Get("offset"))
	if p == nil {
		p = p2
	}
	if p != nil {
		p.Write(w)
		return
	}
	lanes, err := h.caches.lanes.Get(
		r.Context(), lanesKey{h.seenAs(name), offset, limit}, httpio.MaxAge(r),
		func(ctx context.Context) (rankedLanes, error) { return h.rankLanes(ctx, name, offset, limit) },
	)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	v := shownLanes(r.Context(), &lanes)
	if next := offset + limit; next < lanes.ranked {
		v.Next = next
	}
	h.writeJSON(w, r, http.StatusOK, v)
}

// rankLanes reads a page of the lanes of a queue. A lane that has emptied meanwhile is missing on its page.
func (h *handler) rankLanes(ctx context.Context, name string, offset, limit int) (v rankedLanes, err error) {
	l, err := h.engine.Lineup(ctx, name)
	if err != nil {
		return v, err
	}
	f, err := quote.Curve(&l, queue.ForecastRequest{})
	if err != nil {
		return v, err
	}
	all := make([]rankedLane, 0, len(l.Lanes))
	for n := range l.Lanes {
		if l.Lanes[n].Waiting == 0 {
			continue
		}
		all = append(all, rankedLane{&l.Lanes[n], f.Lanes[n]})
		if f.Lanes[n].IsZero() {
			v.never++
		}
	}
	slices.SortFunc(all, slowestFirst)
	v.ranked = len(all)
	from := min(offset, len(all))
	v.page, err = h.nameLanes(ctx, name, all[from:min(from+limit, len(all))], len(all))
	v.Info, v.Forecast = l.Info, f
	v.Forecast.Lanes = nil // may be long, and no answer has them
	return v, err
}

// slowestFirst compares lanes by their finish: the latest first, and before those the lanes that never empty.
func slowestFirst(a, b rankedLane) int {
	if a.finish.IsZero() != b.finish.IsZero() {
		if a.finish.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Or(
		b.finish.Compare(a.finish), cmp.Compare(b.Waiting, a.Waiting), slices.Compare(a.Digest[:], b.Digest[:]),
	)
}

// nameLanes adds the keys to some lanes of a queue, and leaves out lanes without waiting jobs. of is the number of all
// lanes. If they fit in a page, one call reads them; otherwise each lane takes a call.
func (h *handler) nameLanes(ctx context.Context, name string, some []rankedLane, of int) ([]rankedLane, error) {
	keys := map[queue.LaneDigest]string{{}: ""}
	read := func(req queue.LanesRequest) error {
		req.Queue = name
		page, err := h.engine.Lanes(ctx, req)
		for _, ln := range page.Lanes {
			keys[ln.Digest] = ln.Key
		}
		return err
	}
	if of <= queue.MaxLanesPage && len(some) > 1 {
		if err := read(queue.LanesRequest{Limit: queue.MaxLanesPage}); err != nil {
			return nil, err
		}
	}
	named := make([]rankedLane, 0, len(some))
	for _, ln := range some {
		if _, known := keys[ln.Digest]; !known {
			if err := read(queue.LanesRequest{After: ln.Digest.Before(), Limit: 1}); err != nil {
				return nil, err
			}
		}
		key, known := keys[ln.Digest]
		if !known {
			continue
		}
		ln.Key = key
		named = append(named, ln)
	}
	return named, nil
}

// laneBudgets returns the usage of the limits of a lane.
func laneBudgets(rule *queue.LaneRule, lane *queue.LaneInfo, now time.Time) (list []wire.Budget) {
	limits := rule.Limits.List()
	for n, s := range rule.Limits.BudgetStates(lane, now) {
		l := &limits[n]
		list = append(list, wire.Budget{
			Unit: l.Unit, Rate: l.Rate, Burst: max(1, l.Burst), Used: s.Used, Free: s.Free.UTC(),
		})
	}
	return list
}

func shownLanes(ctx context.Context, l *rankedLanes) wire.Lanes {
	v := wire.Lanes{
		Now: l.Now.UTC(), Lanes: make([]wire.Lane, 0, len(l.page)), Total: l.Info.Lanes, Waiting: l.Waiting,
		Never: l.never, FinishAt: instant(l.Finish), Exact: l.Exact, Estimated: l.Estimated,
		Unlisted: max(0, l.Info.Lanes-int64(l.ranked)),
	}
	if n := len(l.Bends); l.Forecast.Never() && n > 0 {
		why := shownBend(ctx, &l.Bends[n-1], "")
		v.Why = &why
	}
	for _, ln := range l.page {
		lane := wire.Lane{Lane: ln.Key, Waiting: ln.Waiting, FinishAt: instant(ln.finish), StoppedUntil: instant(ln.Stop)}
		rule := l.Spec.Lanes.Of(ln.Key)
		if !rule.Rate.Unlimited() {
			lane.Limit = rule.Rate.String()
		}
		lane.Budgets = laneBudgets(&rule, &ln.LaneInfo, l.Now)
		lane.Weight = rule.Share()
		if perSecond, ok := l.Info.LaneGuaranteed(ln.Key); ok {
			lane.Guaranteed = toMillionth(perSecond)
		}
		if took := ln.finish.Sub(l.Now); took > 0 {
			lane.PerSecond = toMillionth(float64(ln.Waiting) / took.Seconds())
		}
		if ln.Stop.Before(l.Now) {
			lane.StoppedUntil = nil
		}
		v.Lanes = append(v.Lanes, lane)
	}
	return v
}
