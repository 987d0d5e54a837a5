package boltq

import (
	"context"
	"errors"
	"testing"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// A job is not reported unknown before the commit that made it so is on disk.
func TestUnknownWaitsForTheDeletion(t *testing.T) {
	h := holding()
	b := start(t, Options{synced: h.synced})
	ctx, id := context.Background(), enginetest.Job("q", 1).ID
	b.MustPut("q", "unlimited")
	b.MustAppend(enginetest.Job("q", 1))
	if _, err := b.Settle(ctx, enginetest.Settlements(queue.Bury, b.MustReserve(1))); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		what   string
		remove func() error
		want   error
	}{
		{
			"the job is forgotten", func() error { return second(b.Forget(ctx, "q", []string{id})) },
			queue.ErrUnknownJob,
		},
		{
			"the queue is deleted", func() error { return b.Delete(ctx, "q", queue.AnyRevision, true) },
			queue.ErrUnknownQueue,
		},
	} {
		h.on.Store(true)
		removed := make(chan error)
		go func() { removed <- of.remove() }()
		<-h.arrived
		if _, err := b.Job(giveUp(), "q", id); !errors.Is(err, queue.ErrOutcomeUnknown) {
			t.Errorf("%s: %v before that was acknowledged", of.what, err)
		}
		h.on.Store(false)
		h.release <- struct{}{}
		if err := <-removed; err != nil {
			t.Errorf("%s: %v", of.what, err)
		}
		if _, err := b.Job(ctx, "q", id); !errors.Is(err, of.want) {
			t.Errorf("%s: %v", of.what, err)
		}
	}
}

// A job on its way back is never unknown: a reader waits until it is there.
func TestAJobOnItsWayBackIsNotUnknown(t *testing.T) {
	for what, begin := range map[string]func(b *bench) (bringBack func()){
		"replayed": func(b *bench) func() {
			b.AppendTo("q", 2, 1)
			b.MustSettle(queue.Bury, b.MustReserve(1))
			return func() {
				if _, err := b.Replay(context.Background(), "q", []string{enginetest.Job("q", 2).ID}); err != nil {
					t.Error(err)
				}
			}
		},
		"readmitted": func(b *bench) func() {
			b.AppendTo("q", 1, 1)
			aside := b.MustOffer("q", 2, 1)
			b.MustSettle(queue.Deliver, b.MustReserve(1))
			return func() {
				b.CheckOutcomes(b.ReadmitJobs("q", enginetest.Stored("q", 2, 1, aside[0])), readmit.Returned)
			}
		},
	} {
		h := holding()
		b := start(t, Options{synced: h.synced})
		b.MustPut("q", "unlimited", enginetest.Deferring(1))
		bringBack := begin(b)
		h.on.Store(true)
		returned := make(chan struct{})
		go func() { defer close(returned); bringBack() }()
		<-h.arrived
		if _, err := b.Job(giveUp(), "q", enginetest.Job("q", 2).ID); !errors.Is(err, queue.ErrOutcomeUnknown) {
			t.Errorf("%s: %v before that was acknowledged", what, err)
		}
		h.on.Store(false)
		h.release <- struct{}{}
		<-returned
		j, err := b.Job(context.Background(), "q", enginetest.Job("q", 2).ID)
		if err != nil || j.State != queue.Waiting || j.Position != 1 {
			t.Errorf("%s: %+v, %v", what, j, err)
		}
	}
}
