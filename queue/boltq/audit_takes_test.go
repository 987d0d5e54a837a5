package boltq

import (
	"context"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// What was given back or forgotten while there was no room, and its entry, are in the file by the same commit,
// whatever else that brings.
func TestAuditOfTakesGoesWithThem(t *testing.T) {
	n, c := &noSpace{}, &copies{TB: t, dir: t.TempDir()}
	b := start(t, Options{fault: n.fault, synced: c.take, saveAfter: time.Hour})
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
	if b.saveTallies() {
		t.Fatal("more is to be saved")
	}
	b.Engine.mu.Lock()
	for i := range uint64(2 * batchForgets) { // what is forgotten already comes first
		b.droppedTallies.add(1<<40 + i)
	}
	b.Engine.mu.Unlock()
	n.all.Store(true)
	ask(queue.TakeBack, "back", 4)
	ask(queue.TakeAnew, "anew", 1)
	n.all.Store(false)
	b.forgive()
	c.of = b.Engine
	if _, err := b.putDoc("a", "1"); err != nil {
		t.Fatal(err)
	}
	e, err := Open(ctx, c.path(1), Options{Now: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if entries, _ := verified(t, e); len(entries) != 4 { // of the rule, of both, of the document
		t.Errorf("%+v", entries)
	}
	for key, left := range map[string]int64{"back": 6, "anew": 10} {
		taken, err := e.Take(t.Context(), "g.r", []queue.Take{{Op: queue.TakePeek, Key: key}})
		if err != nil || taken[0].Remaining != left-1 { // had it been a take
			t.Errorf("of %s there is %+v, %v", key, taken, err)
		}
	}
}
