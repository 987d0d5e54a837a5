package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/status"
)

// maxOffset is how far into an overview a page may begin.
const maxOffset = 1_000_000

// overview shows a page of all queues as they were last read, sorted and filtered.
func (h *handler) overview(w http.ResponseWriter, r *http.Request) {
	q, p := readOverview(r)
	if p != nil {
		p.write(w)
		return
	}
	snapshot, err := h.o.Survey.First(r.Context())
	if err != nil {
		h.fail(w, err, "")
		return
	}
	rows, total := snapshot.Select(q)
	page := wire.Overview{AsOf: snapshot.At.UTC(), Queues: make([]wire.QueueRow, 0, len(rows)), Total: total}
	sum := snapshot.Summary(q)
	page.Sums = wire.Sums{
		States: sum.States, Full: sum.Full, Size: sum.Size, Capacity: sum.Capacity, Deferred: sum.Deferred, Dead: sum.Dead,
		In: sum.Rates.In, Out: sum.Rates.Out, Refused: sum.Rates.Refused, Outflow: sum.Outflow,
	}
	for _, row := range rows {
		page.Queues = append(page.Queues, shownRowTo(r.Context(), row))
	}
	if next := q.Offset + len(rows); next < total {
		page.Next = next
	}
	h.writeJSON(w, r, http.StatusOK, page)
}

// readOverview reads which queues are asked for.
func readOverview(r *http.Request) (q survey.Query, p *Problem) {
	_, q.Limit, p = pageOf(r)
	values := r.URL.Query()
	for _, field := range []string{"sort", "state", "full", "name", "offset"} {
		if len(values[field]) > 1 {
			p = &Problem{Reason: ReasonDuplicateField, Field: field, Detail: "is given twice"}
		}
	}
	if p != nil {
		return q, p
	}
	q.Sort, q.Descending = strings.CutPrefix(values.Get("sort"), "-")
	if names := survey.SortKeys(); q.Sort != "" && !slices.Contains(names, q.Sort) {
		return q, badField("sort", shorten(q.Sort)+" must be one of "+strings.Join(names, ", ")+", with - before it for "+
			"the highest first")
	}
	if states := values.Get("state"); states != "" {
		for _, state := range strings.Split(states, ",") {
			if !slices.Contains(status.Codes(), status.Code(state)) {
				return q, badField("state", shorten(state)+" is no status.code of a queue")
			}
			q.States = append(q.States, status.Code(state))
		}
	}
	if full := values.Get("full"); full != "" {
		var err error
		if q.Full, err = strconv.ParseBool(full); err != nil {
			return q, badField("full", shorten(full)+" must be true or false")
		}
	}
	if offset := values.Get("offset"); offset != "" {
		var err error
		if q.Offset, err = strconv.Atoi(offset); err != nil || q.Offset < 0 || q.Offset > maxOffset {
			return q, badField("offset", shorten(offset)+" must be a whole number from 0 to "+strconv.Itoa(maxOffset))
		}
	}
	q.Text, q.Visible = values.Get("name"), mayView(r.Context())
	return q, nil
}

// mayView tells whether whoever asks may see a queue of a name; nil if all.
func mayView(ctx context.Context) func(name string) bool {
	if _, all := visible(ctx); all {
		return nil
	}
	return func(name string) bool { return may(ctx, auth.View, name) }
}

// shownRowTo shows a queue of an overview, as far as whoever asks may see it.
func shownRowTo(ctx context.Context, r *survey.Row) wire.QueueRow {
	i := r.Info
	row := wire.QueueRow{
		Name: r.Name, Revision: r.Revision, Status: shownStatus(&r.Status, i), SeenAt: i.Now.UTC(), Pull: i.Spec.Pull,
		Children: i.Group.Children,

		Size: r.Size, Capacity: i.Spec.Capacity, Bytes: r.Bytes, MaxBytes: maxBytes(i), Fill: r.Fill(), Deferred: r.Deferred,
		Waiting: i.Waiting, Scheduled: i.Scheduled, Leased: i.Leased, HeldJobs: i.Held, Dead: i.Dead, Lanes: i.Lanes,

		In: r.Rates.In, Out: r.Rates.Out, Refused: r.Rates.Refused, DeadDropped: i.Dropped, Outflow: r.Outflow, Rate: r.Rate,
		OldestWaiting: instant(i.OldestWaiting),
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
