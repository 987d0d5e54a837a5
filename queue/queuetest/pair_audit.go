package queuetest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// long is a text of two-byte characters that is too long for the audit log.
var long = strings.Repeat("ü", audit.MaxTextBytes)

// putDocument writes or deletes a document, which both engines have or neither.
func (p *pair) putDocument() {
	d := doc(
		rapid.SampledFrom([]string{"app", "token", "token", "No"}).Draw(p.T, "kind"),
		rapid.SampledFrom([]string{"a", "b", "a:b"}).Draw(p.T, "document"),
		rapid.SampledFrom([]string{"", `1`, `{"n": 2}`, `{"n": 2}`, "{\n}", `"` + long + `é!"`, `"` + long + `ê!"`}).
			Draw(p.T, "text"),
	)
	which := rapid.IntRange(-1, len(p.documentRevs[0])).Draw(p.T, "expect")
	ctx := audit.WithActor(p.ctx, audit.Actor{
		Name: "token:1", App: rapid.SampledFrom([]string{"", "acme", "beta"}).Draw(p.T, "app"), Note: "ann", Request: "r",
	})
	var got [2]int64
	p.both(fmt.Sprintf("put document %s %s %s expecting %d", d.Kind, d.Name, d.Text, which),
		func(side int, e queue.Engine) string {
			expect := int64(which)
			if which > 0 {
				expect = p.documentRevs[side][which-1]
			}
			var err error
			got[side], err = e.PutDocument(ctx, d, expect)
			return kind(err)
		})
	p.corresponds(&p.documentRevs, got)
}

// record records a refusal.
func (p *pair) record() {
	entry := audit.Entry{
		Actor: audit.Actor{Address: "192.0.2.1"}, Of: rapid.SampledFrom([]string{"queue", "app", "."}).Draw(p.T, "of"),
		Name: "x", What: changekind.Refused, Refused: "forbidden", Times: rapid.Int64Range(0, 3).Draw(p.T, "times"),
	}
	p.both(fmt.Sprintf("record %+v", entry), func(_ int, e queue.Engine) string { return kind(e.Record(p.ctx, entry)) })
}

// documents compares all documents, in the order of their last writes.
func (p *pair) documents() {
	p.both("documents", func(_ int, e queue.Engine) (text string) {
		page, err := e.DocumentsSince(p.ctx, 0, document.MaxPage)
		for _, d := range page.Documents {
			text += fmt.Sprintf("\n  %s %s %s", d.Kind, d.Name, d.Text)
			one, err := e.Document(p.ctx, d.Kind, d.Name)
			text += fmt.Sprintf(", alone %s %s %v", kind(err), one.Text, one.Revision == d.Revision)
		}
		return kind(err) + text
	})
}

// audit verifies the audit logs and compares their entries. Entries of queues and rules are all in one partition, the
// other entries in the first. An engine's partitions have separate clocks, so the times of the latter are left out, as
// are revisions.
func (p *pair) audit() {
	p.both("audit", func(_ int, e queue.Engine) string {
		of := partition(nil, e, "g")
		text := p.auditedIn(e, of, func(a *audit.Entry) bool { return a.Refused == "" && isSubject(a.Of) }, true)
		return text + p.auditedIn(e, 0, func(a *audit.Entry) bool { return a.Refused != "" || !isSubject(a.Of) }, false)
	})
}

func isSubject(of string) bool { return of == string(queue.OfQueue) || of == string(queue.OfRule) }

// auditedIn formats the wanted entries in the log of a partition.
func (p *pair) auditedIn(e queue.Engine, partition int, wanted func(*audit.Entry) bool, timed bool) (text string) {
	v := audit.Verifier{Partition: partition}
	for {
		ask := audit.Request{Partition: partition, Limit: audit.MaxPage}
		if v.Number > 0 {
			ask.From = v.Number + 1
		}
		page, err := e.Audit(p.ctx, ask)
		if err == nil {
			err = v.Add(page.Records)
		}
		if err == nil && len(page.Records) < audit.MaxPage {
			err = v.End(page.Chains)
		}
		if err != nil {
			return err.Error()
		}
		for i := range page.Records {
			a, err := page.Records[i].Entry()
			if err != nil {
				return err.Error()
			}
			if !wanted(&a) {
				continue
			}
			if text += fmt.Sprintf("\n  %+v %s", a.Actor, auditText(&a)); timed {
				text += fmt.Sprintf(" at %d", a.At)
			}
			if a.Diff != nil {
				text += fmt.Sprintf(", differs in %+v", *a.Diff)
			}
			text += fmt.Sprintf(", of %s, %s -> %s", a.Budget, page.Records[i].Before, page.Records[i].After)
		}
		if len(page.Records) < audit.MaxPage {
			return text
		}
	}
}
