package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/status"
)

// maxOffset is the largest offset of a page.
const maxOffset = 1_000_000

// overview answers with a page of all queues as of the last survey, sorted and filtered.
func (h *handler) overview(w http.ResponseWriter, r *http.Request) {
	q, p := readOverview(r)
	if p != nil {
		p.Write(w)
		return
	}
	snapshot := h.snapshot(w, r)
	if snapshot == nil {
		return
	}
	rows, total := snapshot.Select(q)
	page := wire.Overview{AsOf: snapshot.At.UTC(), Queues: make([]wire.QueueRow, 0, len(rows)), Total: total}
	sum := snapshot.Summary(q)
	page.Sums = wire.Sums{
		States: sum.States, Full: sum.Full, Size: sum.Size, Capacity: sum.Capacity, Deferred: sum.Deferred, Dead: sum.Dead,
		In: sum.Rates.In, Out: sum.Rates.Out, Refused: sum.Rates.Refused, Outflow: sum.Outflow,
		FinishAt: instant(sum.Finish), Never: sum.Never, DelaySeconds: sum.Delay.Seconds(),
	}
	worst := h.findings.of(h, snapshot).worst
	for _, row := range rows {
		shown := shownRowTo(r.Context(), row)
		shown.Verdict = worst[row.Name]
		page.Queues = append(page.Queues, shown)
	}
	if next := q.Offset + len(rows); next < total {
		page.Next = next
	}
	h.writeJSON(w, r, http.StatusOK, page)
}

// snapshot returns the last survey of the queues. After an error it answers and returns nil.
func (h *handler) snapshot(w http.ResponseWriter, r *http.Request) *survey.Snapshot {
	snapshot, err := h.o.Survey.First(r.Context())
	if err != nil {
		h.fail(w, err, "")
		return nil
	}
	return snapshot
}

// readOverview reads the filter, the order and the page.
func readOverview(r *http.Request) (q survey.Query, p *httpio.Problem) {
	values := r.URL.Query()
	if p := httpio.Once(values, "sort", "state", "full", "name", "offset"); p != nil {
		return q, p
	}
	if _, q.Limit, p = httpio.Page(r); p != nil {
		return q, p
	}
	q.Sort, q.Descending = strings.CutPrefix(values.Get("sort"), "-")
	if names := survey.SortKeys(); q.Sort != "" && !slices.Contains(names, q.Sort) {
		return q, httpio.BadField("sort", httpio.Shorten(q.Sort)+" must be one of "+strings.Join(names, ", ")+
			", with - in front for descending order")
	}
	if states := values.Get("state"); states != "" {
		for _, state := range strings.Split(states, ",") {
			if !slices.Contains(status.Codes(), status.Code(state)) {
				return q, httpio.BadField("state", httpio.Shorten(state)+" is not a status.code of a queue")
			}
			q.States = append(q.States, status.Code(state))
		}
	}
	if q.Full, p = httpio.Bool(values, "full"); p != nil {
		return q, p
	}
	if q.Offset, p = readOffset(values.Get("offset")); p != nil {
		return q, p
	}
	q.Text, q.Visible = values.Get("name"), mayView(r.Context())
	return q, nil
}

// mayView returns a function that reports whether the caller may view a queue, nil if the caller may view all.
func mayView(ctx context.Context) func(name string) bool {
	if _, all := visible(ctx); all {
		return nil
	}
	return func(name string) bool { return may(ctx, auth.View, name) }
}

// shownRowTo converts a queue of an overview to what the caller may see of it.
func shownRowTo(ctx context.Context, r *survey.Row) wire.QueueRow {
	i := r.Info
	row := wire.QueueRow{
		Name: r.Name, Revision: r.Revision, Status: shownStatus(&r.Status, i), SeenAt: i.Now.UTC(), Pull: i.Spec.Pull,
		Children: i.Group.Children,

		Size: r.Size, Capacity: i.Spec.Capacity, Bytes: r.Bytes, MaxBytes: maxBytes(i), Fill: r.Fill(), Deferred: r.Deferred,
		Waiting: i.Waiting, Scheduled: i.Scheduled, Leased: i.Leased, HeldJobs: i.Held, Dead: i.Dead, Lanes: i.Lanes,

		In: r.Rates.In, Out: r.Rates.Out, Refused: r.Rates.Refused, DeadDropped: i.Dropped, Outflow: r.Outflow, Rate: r.Rate,
		OldestWaiting: instant(i.OldestWaiting), Outlook: shownOutlook(r.Outlook),
	}
	if !r.Rate.Unlimited() {
		n := r.Rate.PerSecond()
		row.PerSecond = &n
	}
	if r.Rate != i.Spec.Rate {
		row.Configured = &i.Spec.Rate
	}
	if visibleTo(ctx, i) != i {
		hideForeign(&row.Status)
	}
	return row
}

// shownOutlook returns nil if there is no outlook yet.
func shownOutlook(o *survey.Outlook) *wire.Outlook {
	if o == nil {
		return nil
	}
	v := &wire.Outlook{FinishAt: instant(o.Finish), Exact: o.Exact}
	if delay, ok := o.Delay(); ok {
		seconds := delay.Seconds()
		v.DelaySeconds = &seconds
	}
	if o.Never() || v.DelaySeconds == nil {
		v.Why = string(o.Why)
	}
	return v
}
