package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

const (
	// auditPage is how many entries are read at a time, over all partitions; of each partition at least leastAuditPage and
	// at most mostAuditPage.
	auditPage, leastAuditPage, mostAuditPage = 200, 5, 100
	// auditCost is the memory of the largest entry, with before and after.
	auditCost = 2 * (infoCost + queue.MaxDeliverBytes)
	// maxAudited is about how many entries one request reads.
	maxAudited = 5000
)

// listAudit answers with a page of the audit log: the entries of all partitions by time that match the query and that
// the caller may see.
func (h *handler) listAudit(w http.ResponseWriter, r *http.Request) {
	sees := auditViewOf(r.Context())
	ask, p := auditRequest(r, h.engine.Partitions(), sees.all)
	if p != nil {
		p.Write(w)
		return
	}
	if !sees.all {
		if err := h.seekAudit(r.Context(), &ask); err != nil {
			h.fail(w, err, "")
			return
		}
	}
	c := httpio.NewCharge(h.account(r))
	defer c.Free()
	page := wire.Audit{Records: []wire.AuditRecord{}}
	begun, place := ask.place, ask.place
	place.passed = 0
	held := 0
	chains, more, p, err := h.audit(r.Context(), &ask, c, &held, func(e *audited) bool {
		shown, ok := sees.record(e)
		place.pass(e.entry.At, ok)
		if ok && ask.wants(e) && (sees.all || begun.precedes(place, ask.oldest)) {
			page.Records = append(page.Records, shown)
		} else {
			held -= e.cost()
		}
		return len(page.Records) < ask.limit
	})
	switch {
	case err != nil:
		h.fail(w, err, "")
		return
	case p != nil && len(page.Records) == 0:
		p.Write(w)
		return
	}
	if page.More = more; more || ask.oldest {
		page.Next = place.text()
	}
	if sees.all {
		page.Chains = chains
		if page.Next != "" {
			page.Next = ask.at.text()
		}
	}
	httpio.WriteJSON(w, r, http.StatusOK, page, c)
}

// audited is an entry of the audit log.
type audited struct {
	partition int
	entry     audit.Entry
	record    audit.Record
	list      []audit.ListedQueue // of an entry about many queues
}

// cost returns about how much memory the entry takes.
func (e *audited) cost() int {
	return 2*len(e.record.Text) + len(e.record.Before) + len(e.record.After)
}

// auditRun holds the entries of a partition that were read and not merged yet.
type auditRun struct {
	entries []audited
	over    bool // the partition has no more entries
	chains  []wire.AuditChain
}

// audit merges the entries after the query's cursor by time and passes them to see. It ends when see returns false,
// when there are no more entries, when maxAudited were read, or when memory runs out, which p reports.
//
// The cursor then points after the last entry passed to see, and more says that others follow. held is the size of all
// entries in memory, which c is charged for; see subtracts the entries that it does not keep.
func (h *handler) audit(
	ctx context.Context, ask *auditQuery, c *httpio.Charge, held *int, see func(*audited) bool,
) (chains []wire.AuditChain, more bool, p *httpio.Problem, err error) {
	runs := make([]auditRun, len(ask.at))
looking:
	for looked := 0; looked < maxAudited; looked++ {
		first := -1
		for n := range runs {
			p, err = h.readAudit(ctx, ask, n, &runs[n], c, held)
			if err != nil {
				return nil, false, nil, err
			}
			if p != nil {
				break looking
			}
			if run := &runs[n]; len(run.entries) > 0 && (first < 0 || ask.before(run, &runs[first])) {
				first = n
			}
		}
		if first < 0 {
			break
		}
		e := &runs[first].entries[0]
		if !ask.oldest && e.entry.Time().Before(ask.since) { // and so are all that follow
			runs[first].entries, runs[first].over, ask.at[first] = nil, true, auditEnd
			continue
		}
		runs[first].entries = runs[first].entries[1:]
		ask.at.pass(first, e.entry.Number, ask.oldest)
		if !see(e) {
			break
		}
	}
	for n := range runs {
		chains = append(chains, runs[n].chains...)
		more = more || len(runs[n].entries) > 0 || !runs[n].over
	}
	return chains, more, p, nil
}

// readAudit reads the next entries of a partition, once all earlier ones are merged.
func (h *handler) readAudit(
	ctx context.Context, ask *auditQuery, n int, run *auditRun, c *httpio.Charge, held *int,
) (*httpio.Problem, error) {
	if run.over || len(run.entries) > 0 {
		return nil, nil
	}
	if ask.at[n] == auditEnd {
		run.over = true
		return nil, nil
	}
	c.Shrink(*held)
	limit, p := c.Ahead(min(max(leastAuditPage, auditPage/len(ask.at)), mostAuditPage), auditCost)
	if p != nil {
		return p, nil
	}
	page, err := h.engine.Audit(ctx, audit.Request{
		Partition: n, From: max(0, ask.at[n]), Back: !ask.oldest, Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	run.chains = make([]wire.AuditChain, len(page.Chains))
	for i, c := range page.Chains {
		run.chains[i] = wire.AuditChain{
			Partition: n, Budget: c.Budget, Oldest: c.Oldest, Newest: c.Newest, Head: c.Head, Dropped: c.Dropped,
		}
	}
	run.over = len(page.Records) < limit
	run.entries = make([]audited, len(page.Records))
	for i := range page.Records {
		e := audited{partition: n, record: page.Records[i]}
		if e.entry, err = auditEntry(&e.record); err != nil {
			return nil, err
		}
		if e.list, err = e.entry.List(e.record.After); err != nil {
			return nil, fmt.Errorf("%w: %w", queue.ErrCorrupt, err)
		}
		*held += e.cost()
		run.entries[i] = e
	}
	c.Shrink(*held)
	switch {
	case ask.oldest:
	case len(run.entries) == 0:
		ask.at[n] = auditEnd
	default: // entries written meanwhile do not belong on the next page
		ask.at[n] = run.entries[0].entry.Number
	}
	return nil, nil
}

// auditEntry parses a record.
func auditEntry(r *audit.Record) (audit.Entry, error) {
	e, err := r.Entry()
	if err != nil {
		err = fmt.Errorf("%w: %w", queue.ErrCorrupt, err)
	}
	return e, err
}

// auditView is what a caller may see of the audit log.
type auditView struct {
	id  *auth.Identity
	all bool
}

func auditViewOf(ctx context.Context) auditView {
	id := caller(ctx)
	return auditView{id, id == nil || id.Everything(auth.Admin)}
}

// record returns an entry as the caller may see it, and whether the caller may see it at all.
//
// An app's admin sees who changed the app's objects, but no tokens or addresses of operators. The admin never sees what
// another app did, nor entries from before the app was created, when another app may have had its name and prefixes. An
// admin of a part of the app sees only tokens and subjects whose grants are all within that part. Attempts at names
// outside the app are shown to such an admin only if the admin made them. An entry about many queues is shown with only
// those whose own entries would be shown. Numbers and digests are only for callers who see all entries, because they
// would reveal what others do.
func (v auditView) record(e *audited) (wire.AuditRecord, bool) {
	shown := wire.AuditRecord{
		Partition: e.partition, Entry: e.entry, Before: e.record.Before, After: e.record.After,
	}
	if v.all {
		shown.Text, shown.Digest = string(e.record.Text), e.record.Digest
		return shown, true
	}
	shown.Partition, shown.Entry.Partition = 0, 0
	shown.Entry.Number, shown.Entry.Follows = 0, 0
	shown.Entry.Previous, shown.Entry.Before, shown.Entry.After = "", "", ""
	app, by := v.id.App, e.entry.Actor.App
	own := app != nil && by == app.Name
	all := v.id.ManagesAll() || own && e.entry.Actor.Name == v.id.Actor.Name
	if app != nil && (by != "" && !own || e.entry.Time().Before(app.Created)) {
		return shown, false
	}
	if !own {
		shown.Entry.Actor.Token, shown.Entry.Actor.Address, shown.Entry.Actor.Request = "", "", ""
	}
	switch e.entry.Of {
	case string(queue.OfQueue), string(queue.OfRule):
		sees := func(name string) bool {
			had := own || app == nil || app.HadAt(name, e.entry.Time())
			return had && v.id.Can(auth.Admin, name) || own && all && !v.id.Owns(name)
		}
		if e.list == nil {
			return shown, sees(e.entry.Name)
		}
		e.list = slices.DeleteFunc(e.list, func(l audit.ListedQueue) bool { return !sees(l.Name) })
		var err error
		shown.After, err = audit.EncodeList(e.list)
		return shown, err == nil && len(e.list) > 0
	case auth.KindApp:
		return shown, app != nil && e.entry.Name == app.Name
	}
	belongs, within := v.holds(e)
	return shown, (own || belongs) && (all || within)
}

// holds reports whether a changed document belongs to the caller's app, and not to an earlier app of that name. within
// reports whether the caller may give all of its permissions, before and after the change.
func (v auditView) holds(e *audited) (belongs, within bool) {
	if v.id.App == nil {
		return false, false
	}
	within = e.entry.LeftOut == nil && (e.record.Before != nil || e.record.After != nil)
	for _, text := range [][]byte{e.record.Before, e.record.After} {
		if text == nil {
			continue
		}
		var d struct {
			App     string       `json:"app"`
			Created time.Time    `json:"app_created"`
			Grants  []auth.Grant `json:"grants"`
		}
		if json.Unmarshal(text, &d) != nil || d.App != v.id.App.Name || !d.Created.Equal(v.id.App.Created) {
			within = false
			continue
		}
		belongs = true
		within = within && v.id.Manages(d.App, d.Grants)
	}
	return belongs, within
}
