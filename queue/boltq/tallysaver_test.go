package boltq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// forever is longer than any test: takes wait for other commits.
const forever = time.Hour

// A take costs no commit of its own, and is soon on file.
func TestTakesAreWrittenBehind(t *testing.T) {
	var commits atomic.Int64
	b := start(t, Options{synced: func() { commits.Add(1) }, saveAfter: forever})
	b.MustPutRule(enginetest.PerHour("r", 100))
	before := commits.Load()
	for i := range 50 {
		b.MustTake("r", rules.Take{Key: fmt.Sprint(i)})
	}
	if n := commits.Load() - before; n > 0 {
		t.Errorf("%d commits", n)
	}

	c := &copies{TB: t, dir: t.TempDir()}
	b = start(t, Options{synced: c.take})
	b.MustPutRule(enginetest.PerHour("r", 100))
	c.of = b.Engine
	takes := make([]rules.Take, 100)
	for i := range takes {
		takes[i].Key = fmt.Sprint(i / 2)
	}
	if _, err := b.Take(context.Background(), "r", takes); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "they are in a copy of the file", func() bool { return c.n.Load() > 0 })
	b.crash(c)
	if left := b.Left("r", "7"); left != 98 {
		t.Errorf("%d left", left)
	}
}

const talliesACommit = 500 // at least, as queue/machine saves them

// Takes made while the saver saves are batched too: the disk must not be kept busy with a few at a time.
func TestTheSaverRests(t *testing.T) {
	var taken atomic.Int64
	var b *bench
	b = start(t, Options{saveAfter: forever, synced: func() {
		if n := taken.Load(); n > 0 {
			b.MustTake("r", rules.Take{Key: fmt.Sprint("meanwhile ", n)})
		}
	}})
	b.MustPutRule(enginetest.PerHour("r", 1_000_000))
	for i := range talliesACommit + 1 {
		b.MustTake("r", rules.Take{Key: fmt.Sprint(i)})
	}
	taken.Add(1)
	if more := b.Engine.saveTallies(); more {
		t.Error("goes on for what can wait")
	}
	taken.Store(0)
	for i := range 2 * talliesACommit {
		b.MustTake("r", rules.Take{Key: fmt.Sprint("more ", i)})
	}
	if more := b.Engine.saveTallies(); !more {
		t.Error("leaves what fills a change")
	}
}

// Takes that were allowed before Close are on file after it; later ones are refused.
func TestTakesDuringClose(t *testing.T) {
	b := start(t, Options{saveAfter: forever})
	b.MustPutRule(enginetest.PerHour("r", 1_000_000))
	var wg sync.WaitGroup
	var allowed atomic.Int64
	begun := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				a, err := b.Take(context.Background(), "r", []rules.Take{{Key: "k"}})
				if errors.Is(err, queue.ErrClosed) {
					return
				}
				if err != nil || !a[0].Allowed {
					t.Error(a, err)
					return
				}
				if allowed.Add(1); i == 100 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-begun
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	b.open(b.path)
	if left := b.Left("r", "k"); 1_000_000-left != allowed.Load() {
		t.Errorf("%d were allowed, %d are on file", allowed.Load(), 1_000_000-left)
	}
}

// Resets and refunds survive a crash, if they are older than what is written behind.
func TestRefundsAreOnFile(t *testing.T) {
	c := &copies{TB: t, dir: t.TempDir()}
	b := start(t, Options{synced: c.take, saveAfter: time.Millisecond})
	b.MustPutRule(enginetest.PerHour("r", 1))
	c.of = b.Engine
	for _, key := range []string{"back", "anew"} {
		b.MustTake("r", rules.Take{Key: key})
	}
	await.Until(t, "both are on file", func() bool { return b.records(talliesTable) == 2 })
	await.Until(t, "nothing is to be saved", func() bool { return len(b.saveWanted) == 0 })
	b.MustTake("r", rules.Take{Op: rules.TakeBack, Key: "back"})
	b.MustTake("r", rules.Take{Op: rules.TakeAnew, Key: "anew"})
	await.Until(t, "neither is", func() bool { return b.records(talliesTable) == 0 })

	b = start(t, Options{saveAfter: forever})
	b.MustPutRule(enginetest.PerHour("r", 1))
	b.MustTake("r", rules.Take{Key: "back"})
	await.Until(t, "the saver waits for company", func() bool { return len(b.saveWanted) == 0 })
	b.MustTake("r", rules.Take{Op: rules.TakeBack, Key: "back"})
	if len(b.saveWanted) != 1 {
		t.Error("nobody was told that something is to leave the file")
	}
}
