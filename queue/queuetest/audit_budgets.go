package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// auditsAs writes a document as an actor, or records the given refusal of it.
func (r *rig) auditsAs(a audit.Actor, refused, text string) {
	r.Helper()
	if refused != "" {
		r.check(r.e.Record(r.ctx, audit.Entry{
			Actor: a, Of: "app", Name: "x", What: changekind.Refused, Refused: refused,
		}))
		return
	}
	ctx := r.ctx
	r.ctx = audit.WithActor(ctx, a)
	r.putDocument("app", "of-"+a.Name+a.App, text)
	r.ctx = ctx
}

// auditChain returns the chain of a budget in the first partition.
func (r *rig) auditChain(budget audit.Budget) audit.Chain {
	r.Helper()
	page, err := r.e.Audit(r.ctx, audit.Request{Limit: 1})
	r.check(err)
	for _, c := range page.Chains {
		if c.Budget == budget {
			return c
		}
	}
	return audit.Chain{Budget: budget}
}

// hostile is an app that uses up its budget.
var hostile = audit.Actor{Name: "token:0", App: "app-0"}

// floodAudit writes large documents as the hostile app until its budget drops entries.
func (r *rig) floodAudit() {
	r.Helper()
	const writers, each = 20, 10
	for at := 0; r.auditChain(audit.OfApp(hostile.App)).Dropped < 100; at += each {
		if at > 10_000 {
			r.Fatal("the app has made this many writes, and none was dropped")
		}
		r.crowd(writers, func(w int) int {
			ctx := audit.WithActor(r.ctx, hostile)
			for i := range each {
				text := fmt.Sprintf(`"%d%s"`, at+i, strings.Repeat("x", audit.MaxTextBytes-10))
				_, err := r.e.PutDocument(ctx, doc("token", fmt.Sprint(w), text), queue.AnyRevision)
				r.check(err)
			}
			return 0
		})
	}
}

// auditedBy verifies the first partition's log and returns its number of entries by budget.
func (r *rig) auditedBy() map[audit.Budget]int {
	r.Helper()
	n := map[audit.Budget]int{}
	for _, e := range r.auditOf(0) {
		n[e.Budget]++
	}
	return n
}

var auditBudgetRules = []rule{
	{"each entry counts toward the budget of its actor", func(r *rig) {
		ann := audit.Actor{Name: "token:1"}
		want := []audit.Budget{
			audit.Operators, audit.Nobody, audit.OfApp("acme"), audit.Anonymous, audit.OfApp("acme"), audit.Operators,
			audit.Nobody,
		}
		r.auditsAs(ann, "", "1")
		r.auditsAs(audit.Actor{Note: "ann", Address: "192.0.2.1"}, "", "1")
		r.auditsAs(audit.Actor{Name: "token:2", App: "acme"}, "", "1")
		r.auditsAs(audit.Actor{Address: "192.0.2.1"}, "unauthenticated", "")
		r.auditsAs(audit.Actor{App: "acme"}, "forbidden", "")
		r.auditsAs(ann, "forbidden", "")
		r.auditsAs(audit.Actor{}, "", "2")
		last := map[audit.Budget]int64{}
		for i, e := range r.auditOf(0) {
			if e.Number != int64(i+1) || e.Budget != want[i] || e.Follows != last[e.Budget] {
				r.Errorf("entry %d is number %d of %s and follows %d; want %s, %d", i+1, e.Number, e.Budget, e.Follows,
					want[i], last[e.Budget])
			}
			last[e.Budget] = e.Number
		}
		page, err := r.e.Audit(r.ctx, audit.Request{Limit: 1})
		r.check(err)
		got := ""
		for _, c := range page.Chains {
			got += fmt.Sprintf("%s %d-%d ", c.Budget, c.Oldest, c.Newest)
		}
		if want := "anonymous 4-4 app:acme 3-5 nobody 2-7 operators 1-6 "; got != want {
			r.Errorf("the chains are %s, want %s", got, want)
		}
	}},
	{"when one of 20 apps floods the log, no other app and no operator loses an entry", func(r *rig) {
		want := map[audit.Budget]int{}
		others := func() {
			for i := 1; i < 20; i++ {
				r.auditsAs(audit.Actor{Name: "token:1", App: fmt.Sprint("app-", i)}, "", fmt.Sprint(want[audit.Operators]))
				want[audit.OfApp(fmt.Sprint("app-", i))]++
			}
			r.auditsAs(audit.Actor{Name: "token:2"}, "", fmt.Sprint(want[audit.Operators]))
			r.auditsAs(audit.Actor{Address: "192.0.2.1"}, "unauthenticated", "")
			want[audit.Operators]++
			want[audit.Anonymous]++
		}
		others()
		r.floodAudit()
		others()
		got := r.auditedBy()
		for budget, n := range want {
			if got[budget] != n {
				r.Errorf("%d entries of %s, want %d", got[budget], budget, n)
			}
			if c := r.auditChain(budget); c.Dropped != 0 {
				r.Errorf("%d of %s were dropped", c.Dropped, budget)
			}
		}
	}},
	{"an entry is dropped only when its budget is full", func(r *rig) {
		r.floodAudit()
		budget := audit.OfApp(hostile.App)
		full := r.auditChain(budget).Dropped
		// Each of these is a tenth as large as an entry that is dropped for it.
		const n = 100
		for i := range n {
			r.auditsAs(hostile, "forbidden", fmt.Sprint(i))
		}
		if gone := r.auditChain(budget).Dropped - full; gone < 1 || gone > n/5 {
			r.Errorf("for %d small entries %d large ones were dropped", n, gone)
		}
	}},
	{"a budget without new entries keeps its newest entry", func(r *rig) {
		acme, beta := audit.Actor{Name: "token:1", App: "acme"}, audit.Actor{Name: "token:1", App: "beta"}
		for i := range 3 {
			r.auditsAs(acme, "", fmt.Sprint(i))
		}
		r.clock.Advance(queue.KeepChanges + time.Hour)
		for i := range 2 {
			r.auditsAs(beta, "", fmt.Sprint(i))
		}
		if got := fmt.Sprint(r.auditedBy()); got != "map[app:acme:1 app:beta:2]" {
			r.Errorf("left are %s", got)
		}
		r.auditsAs(acme, "", `"again"`)
		all := r.auditOf(0)
		if last := all[len(all)-1]; last.Follows != 3 || r.auditChain(audit.OfApp("acme")).Dropped != 0 {
			r.Errorf("%+v", last)
		}
	}},
	{"a page has the entries of all budgets in order", func(r *rig) {
		for i := range 30 {
			r.auditsAs(audit.Actor{Name: "token:1", App: fmt.Sprint("app-", i%7%3)}, "", fmt.Sprint(i))
		}
		for _, back := range []bool{false, true} {
			for from := int64(1); from <= 30; from += 7 {
				page, err := r.e.Audit(r.ctx, audit.Request{From: from, Back: back, Limit: 12})
				r.check(err)
				want, step, n := from, int64(1), min(12, 31-from)
				if back {
					step, n = -1, min(12, from)
				}
				if len(page.Records) != int(n) {
					r.Errorf("%d entries from %d, want %d", len(page.Records), from, n)
				}
				for i := range page.Records {
					e, err := page.Records[i].Entry()
					if r.check(err); e.Number != want {
						r.Errorf("entry %d, want %d", e.Number, want)
					}
					want += step
				}
			}
		}
	}},
}
