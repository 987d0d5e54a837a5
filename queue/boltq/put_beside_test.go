package boltq

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// A Put whose caller has given up returns nothing, and its commit writes to nobody: run with -race.
func TestAPutWithoutACaller(t *testing.T) {
	h := holding()
	b := start(t, Options{synced: h.synced})
	b.MustPut("q", "1/s")
	spec := b.MustGet("q").Spec
	spec.Capacity = 7
	h.on.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	type answer struct {
		res queue.PutResult
		err error
	}
	answered := make(chan answer)
	go func() {
		res, err := b.Put(ctx, spec, queue.AnyRevision)
		answered <- answer{res, err}
	}()
	<-h.arrived
	cancel()
	a := <-answered
	h.on.Store(false)
	h.release <- struct{}{}
	if !errors.Is(a.err, queue.ErrOutcomeUnknown) || a.res != (queue.PutResult{}) {
		t.Errorf("%+v, %v", a.res, a.err)
	}
	await.Until(t, "the change is made", func() bool { return b.MustGet("q").Spec.Capacity == 7 })
}

// While no client watches, all are woken four times a second, however much becomes due.
func TestWakesWhileNobodyWatches(t *testing.T) {
	b := start(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ear := b.Wake(ctx)
	for round := range 3 {
		for i := range 10 {
			name := fmt.Sprintf("q%d-%d", round, i)
			b.MustPut(name, "1/s")
			b.AppendTo(name, 0, 1)
			b.Advance(24 * time.Millisecond)
		}
		if got := len(ear); got != round+1 {
			t.Errorf("%d wake-ups in %d times 250 ms", got, round+1)
		}
		b.Advance(10 * time.Millisecond)
	}
	for range len(ear) {
		if w := <-ear; w != (queue.Wakeup{}) {
			t.Errorf("%+v, and nobody watches", w)
		}
	}
}
