package boltq

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

// verified returns the audit log of an engine, which must verify from the first kept entry.
func verified(t testing.TB, e *Engine) (entries []audit.Entry, records []audit.Record) {
	t.Helper()
	var v audit.Verifier
	for {
		page, err := e.Audit(context.Background(), audit.Request{From: v.Number + 1, Limit: audit.MaxPage})
		if err == nil {
			err = v.Add(page.Records)
		}
		if err == nil && len(page.Records) < audit.MaxPage {
			err = v.End(page.Chains)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Records {
			entry, err := page.Records[i].Entry()
			if err != nil {
				t.Fatal(err)
			}
			entries, records = append(entries, entry), append(records, page.Records[i])
		}
		if len(page.Records) < audit.MaxPage {
			return entries, records
		}
	}
}

// checkAudit checks that the log matches the store: no change without its entry, no entry without its change.
func checkAudit(t testing.TB, e *Engine) (entries []audit.Entry) {
	t.Helper()
	ctx := context.Background()
	entries, records := verified(t, e)
	documents, queues, cancelled := map[string]int{}, map[string]int{}, map[string]bool{}
	for i := range entries {
		switch a := &entries[i]; {
		case a.Of == "app" && a.Refused == "":
			documents[a.Name] = i
		case a.What == changekind.Cancelled:
			for _, id := range a.IDs {
				cancelled[id] = true
			}
		case a.Of == "queue" && a.What.OfSpecs():
			queues[a.Name] = i
		}
	}
	page, err := e.DocumentsSince(ctx, 0, document.MaxPage)
	if err != nil || page.More || len(page.Documents) != len(documents) {
		t.Fatalf("%d documents, and entries of %d: %v", len(page.Documents), len(documents), err)
	}
	for _, d := range page.Documents {
		i := documents[d.Name]
		if a := entries[i]; a.Revision != d.Revision || string(records[i].After) != string(d.Text) {
			t.Errorf("%s is %s at %d, the entry says %s at %d", d.Name, d.Text, d.Revision, records[i].After, a.Revision)
		}
	}
	list, err := e.List(ctx, "", 100)
	if err != nil || len(list) != len(queues) {
		t.Fatalf("%d queues, and entries of %d: %v", len(list), len(queues), err)
	}
	for _, q := range list {
		if a := entries[queues[q.Spec.Name]]; a.Revision != q.Revision {
			t.Errorf("%s is at %d, the entry says %d", q.Spec.Name, q.Revision, a.Revision)
		}
	}
	for id := range cancelled {
		if j, err := e.Job(ctx, "q", id); err != nil || j.State != queue.Cancelled {
			t.Errorf("%s is %v, %v", id, j.State, err)
		}
	}
	if i, err := e.Get(ctx, "q"); err != nil || i.Cancelled != int64(len(cancelled)) {
		t.Errorf("%d jobs are cancelled, and entries of %d: %v", i.Cancelled, len(cancelled), err)
	}
	return entries
}

// Acknowledged changes are in the copy taken before, with exactly their entries, even if the power fails during the
// next commit.
func TestAuditIsOnDisk(t *testing.T) {
	c := &copies{TB: t, dir: t.TempDir()}
	b := start(t, Options{synced: c.take})
	b.MustPut("q", "unlimited")
	const writers, each = 6, 8
	b.AppendTo("q", 0, writers*each)
	if _, err := b.PutRule(t.Context(), enginetest.PerHour("q.r", 10), 0); err != nil {
		t.Fatal(err)
	}
	c.of = b.Engine
	type ack struct {
		document string
		revision int64
		job      string
		key      string // the rule whose takes were reset or refunded
		copy     int64
	}
	var mu sync.Mutex
	var acks []ack
	note := func(a ack, err error) {
		a.copy = c.n.Load()
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		acks = append(acks, a)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprint("d", w%3)
				text := fmt.Sprintf(`"%d %d"`, w, i)
				revision, err := b.putDoc(name, text)
				note(ack{document: name, revision: revision}, err)
				id := enginetest.Job("q", w*each+i).ID
				_, err = b.Cancel(t.Context(), "q", id)
				note(ack{job: id}, err)
			}
		})
	}
	wg.Go(func() {
		for i := range each {
			b.MustPut("other", fmt.Sprint(i+1, "/s"))
			refused := audit.Entry{Of: "queue", Name: "x", What: changekind.Refused, Refused: "forbidden"}
			if err := b.Record(t.Context(), refused); err != nil {
				t.Error(err)
			}
		}
	})
	for _, op := range []rules.TakeOp{rules.TakeBack, rules.TakeAnew} {
		wg.Go(func() {
			for i := range each {
				key := fmt.Sprint(op, " ", i)
				ctx := audit.WithActor(t.Context(), audit.Actor{Name: "unix:0", Operation: key})
				_, err := b.putDoc("d", fmt.Sprint(i)) // a commit in between
				if err == nil {
					_, err = b.Take(ctx, "q.r", []rules.Take{{Op: rules.TakeNow, Key: key, Cost: 4}})
				}
				if err == nil {
					_, err = b.Take(ctx, "q.r", []rules.Take{{Op: op, Key: key, Cost: 4}})
				}
				note(ack{key: key}, err)
			}
		})
	}
	wg.Wait()
	check := func(i, upTo int64) {
		e, err := Open(context.Background(), c.path(i), Options{Now: b.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		entries := checkAudit(t, e)
		for _, a := range acks {
			if a.copy > upTo {
				continue
			}
			if a.key != "" {
				taken, err := e.Take(t.Context(), "q.r", []rules.Take{{Op: rules.TakePeek, Key: a.key}})
				if err != nil || taken[0].Remaining != 9 { // of 10, had it been a take
					t.Errorf("copy %d: of %s there is %+v, %v", i, a.key, taken, err)
				}
			}
			found := false
			for j := range entries {
				found = found || a.key != "" && entries[j].Actor.Operation == a.key ||
					a.job != "" && strings.Join(entries[j].IDs, "") == a.job ||
					a.document != "" && entries[j].Name == a.document && entries[j].Revision == a.revision
			}
			if !found {
				t.Errorf("copy %d: %+v was acknowledged, and there is no entry of it", i, a)
			}
		}
	}
	taken := c.n.Load()
	if taken < 10 {
		t.Fatalf("%d copies", taken)
	}
	for i := int64(2); i <= taken; i++ {
		check(i, i)
		tear(t, c.path(i))
		check(i, i-1)
	}
}

// Shown texts are masked, and digests are of the masked texts. Documents and specs themselves are unchanged.
func TestAuditIsMasked(t *testing.T) {
	mask := func(kind string, text []byte) []byte {
		return []byte(strings.ReplaceAll(string(text), "s3cret", "***"+kind))
	}
	b := start(t, Options{Mask: mask})
	for _, text := range []string{`"s3cret 1"`, `"s3cret 2"`, ""} {
		if _, err := b.putDoc("a", text); err != nil {
			t.Fatal(err)
		}
	}
	hidden := func(s *queue.Spec) { s.Deliver = []byte(`{"http":{"url":"http://s3cret@a"}}`) }
	b.MustPut("q", "1/s", hidden)
	b.MustPut("q", "2/s", hidden)
	if err := b.Delete(t.Context(), "q", queue.AnyRevision, false); err != nil {
		t.Fatal(err)
	}
	_, records := verified(t, b.Engine)
	var all []string
	for _, r := range records {
		all = append(all, string(r.Text)+string(r.Before)+string(r.After))
	}
	text := strings.Join(all, "\n")
	if strings.Contains(text, "s3cret") || strings.Count(text, "***app") != 4 || strings.Count(text, "***queue") != 4 {
		t.Error(text)
	}
	if h, err := b.History(t.Context(), "q"); err != nil || !strings.Contains(string(h.Specs[0].Spec.Deliver), "s3cret") {
		t.Errorf("%+v, %v", h, err)
	}
}

// The log stays within its limit, whatever the size of its entries.
func TestAuditIsBounded(t *testing.T) {
	const most = audit.NobodyBytes >> 10
	b := start(t, Options{auditShares: 1 << 10})
	for i := range 300 {
		if _, err := b.putDoc("a", fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", i%7*1000))); err != nil {
			t.Fatal(err)
		}
	}
	entries, records := verified(t, b.Engine)
	size := 0
	for _, r := range records {
		size += len(r.Text) + len(r.Before) + len(r.After) + 200
	}
	if n := len(entries); entries[n-1].Number != 300 || entries[0].Number == 1 || size > most || size < most/2 {
		t.Errorf("%d entries from %d with %d bytes", n, entries[0].Number, size)
	}
	b.reopen()
	if again, _ := verified(t, b.Engine); len(again) != len(entries) {
		t.Errorf("%d entries, want %d", len(again), len(entries))
	}
	page, err := b.Audit(t.Context(), audit.Request{Limit: 1})
	if err != nil || page.Dropped() != 300-int64(len(entries)) {
		t.Errorf("%d were dropped, and %d of 300 are there: %v", page.Dropped(), len(entries), err)
	}
}
