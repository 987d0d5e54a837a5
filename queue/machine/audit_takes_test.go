package machine

import (
	"context"
	"testing"

	"github.com/penstock/penstock/queue"
)

// What was given back or forgotten while there was no room, and its entry, are in the file by the same commit,
// whatever else that brings.
func TestAuditOfTakesGoesWithThem(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault, behind: true})
	ctx := queue.WithActor(context.Background(), queue.Actor{Name: "unix:0"})
	if _, err := b.PutRule(ctx, perHour("g.r", 10), 0); err != nil {
		t.Fatal(err)
	}
	ask := func(op queue.TakeOp, key string, cost int64) {
		t.Helper()
		taken, err := b.Take(ctx, "g.r", []queue.Take{{Op: op, Key: key, Cost: cost}})
		if err != nil || taken[0].Err != nil {
			t.Fatal(taken, err)
		}
	}
	ask(queue.TakeNow, "back", 8)
	ask(queue.TakeNow, "anew", 8)
	b.save()
	for i := range uint64(2 * commitForgets) { // what is forgotten already comes first
		b.droppedTallies.add(1<<40 + i)
	}
	n.all.Store(true)
	ask(queue.TakeBack, "back", 4)
	ask(queue.TakeAnew, "anew", 1)
	n.all.Store(false)
	b.forgive()
	if _, err := b.PutDocument(ctx, queue.Document{Kind: "app", Name: "a", Text: []byte("1")}, 0); err != nil {
		t.Fatal(err)
	}
	b.crash()
	page, err := b.Audit(ctx, queue.AuditRequest{From: 1, Limit: 9})
	if err != nil || len(page.Records) != 4 { // of the rule, of both, of the document
		t.Errorf("%+v, %v", page.Records, err)
	}
	for key, left := range map[string]int64{"back": 6, "anew": 10} {
		taken, err := b.Take(t.Context(), "g.r", []queue.Take{{Op: queue.TakePeek, Key: key}})
		if err != nil || taken[0].Remaining != left-1 { // had it been a take
			t.Errorf("of %s there is %+v, %v", key, taken, err)
		}
	}
}
