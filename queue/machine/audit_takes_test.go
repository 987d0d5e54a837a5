package machine

import (
	"context"
	"testing"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

// What was given back or forgotten while there was no room, and its entry, are in the file by the same commit,
// whatever else that brings.
func TestAuditOfTakesGoesWithThem(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault, behind: true})
	ctx := audit.WithActor(context.Background(), audit.Actor{Name: "unix:0"})
	if _, err := b.PutRule(ctx, enginetest.PerHour("g.r", 10), 0); err != nil {
		t.Fatal(err)
	}
	ask := func(op rules.TakeOp, key string, cost int64) {
		t.Helper()
		taken, err := b.Take(ctx, "g.r", []rules.Take{{Op: op, Key: key, Cost: cost}})
		if err != nil || taken[0].Err != nil {
			t.Fatal(taken, err)
		}
	}
	ask(rules.TakeNow, "back", 8)
	ask(rules.TakeNow, "anew", 8)
	b.save()
	for i := range uint64(2 * commitForgets) { // what is forgotten already comes first
		b.droppedTallies.add(1<<40 + i)
	}
	n.all.Store(true)
	ask(rules.TakeBack, "back", 4)
	ask(rules.TakeAnew, "anew", 1)
	n.all.Store(false)
	b.forgive()
	if _, err := b.PutDocument(ctx, document.Document{Kind: "app", Name: "a", Text: []byte("1")}, 0); err != nil {
		t.Fatal(err)
	}
	b.crash()
	page, err := b.Audit(ctx, audit.Request{From: 1, Limit: 9})
	if err != nil || len(page.Records) != 4 { // of the rule, of both, of the document
		t.Errorf("%+v, %v", page.Records, err)
	}
	for key, left := range map[string]int64{"back": 6, "anew": 10} {
		taken, err := b.Take(t.Context(), "g.r", []rules.Take{{Op: rules.TakePeek, Key: key}})
		if err != nil || taken[0].Remaining != left-1 { // had it been a take
			t.Errorf("of %s there is %+v, %v", key, taken, err)
		}
	}
}
