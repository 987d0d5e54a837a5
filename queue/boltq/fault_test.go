package boltq

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// noSpace fails commits for lack of room: all of them, or those that put records into certain tables.
type noSpace struct {
	tables string
	some   atomic.Bool
	all    atomic.Bool
}

func (n *noSpace) fault(tx machine.Transaction) (machine.Transaction, error) {
	if n.all.Load() {
		return tx, syscall.ENOSPC
	}
	if n.some.Load() {
		return tightTransaction{tx, n.tables}, nil
	}
	return tx, nil
}

// tightTransaction has no room in some tables.
type tightTransaction struct {
	machine.Transaction
	tables string
}

func (t tightTransaction) Table(name []byte) machine.Table {
	of := t.Transaction.Table(name)
	if strings.Contains(t.tables, string(name)) {
		return tightTable{of}
	}
	return of
}

type tightTable struct{ machine.Table }

func (t tightTable) Put(k, v []byte) error {
	if t.Table.Get(k) != nil {
		return t.Table.Put(k, v)
	}
	return syscall.ENOSPC
}

// refuse makes a call fail for lack of room, and checks that queue q is unchanged.
func (n *noSpace) refuse(b *bench, what string, f func() error) {
	b.Helper()
	before := b.Standing("q")
	n.all.Store(true)
	if err := f(); !errors.Is(err, queue.ErrStoreFull) {
		b.Errorf("%s: %v", what, err)
	}
	n.all.Store(false)
	b.forgive()
	if after := b.Standing("q"); before != after {
		b.Errorf("%s changed\n%s\ninto\n%s", what, before, after)
	}
}

// forgive ends the pause after a commit that found no room.
func (b *bench) forgive() {
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	b.fullUntil = time.Time{}
}

// Changes that free room are not refused because of appends in the same commit.
func TestAppendsFailAlone(t *testing.T) {
	h, n := holding(), &noSpace{tables: "jobs"}
	b := start(t, Options{synced: h.synced, fault: n.fault})
	ctx := context.Background()
	b.MustPut("q", "unlimited")
	b.MustPut("other", "unlimited")
	b.AppendTo("q", 0, 3)
	got := b.MustReserve(3)
	h.on.Store(true)
	paused := make(chan error)
	go func() { paused <- b.Pause(ctx, "other", queue.Pause{}) }()
	<-h.arrived
	h.on.Store(false)
	n.some.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() {
		large := enginetest.Job("q", 9)
		large.Payload = make([]byte, 100_000)
		a, err := b.Append(ctx, []queue.Job{enginetest.Job("q", 8), large})
		if !errors.Is(err, queue.ErrStoreFull) || a[1].Outcome != queue.Failed {
			t.Errorf("append: %+v, %v", a, err)
		}
	})
	wg.Go(func() {
		for _, s := range b.MustSettle(queue.Deliver, got) {
			if s.State != queue.Delivered {
				t.Errorf("settle: %+v", s)
			}
		}
	})
	await.Until(t, "all are pending", func() bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.machine.PendingBytes() > 100_000 && b.machine.Totals().Leased == 0
	})
	h.release <- struct{}{}
	wg.Wait()
	if err := <-paused; err != nil {
		t.Error(err)
	}
	n.some.Store(false)
	b.reopen()
	if i := b.MustGet("q"); i.Delivered != 3 || i.Appended != 3 || i.Size() != 0 {
		t.Errorf("%+v", i)
	}
}

// A failed commit changes nothing, whatever was in it, and the same works when there is room again.
func TestEveryChangeCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.MustPut("q", "10/s", func(s *queue.Spec) { s.Retry.MaxAttempts = 2 })
	b.MustPut("old", "1/s")
	b.AppendTo("old", 0, 3)
	b.AppendTo("q", 0, 3)
	if err := b.Pause(ctx, "old", queue.Pause{}); err != nil { // only to be deleted
		t.Fatal(err)
	}
	fails := func(what string, f func() error) {
		t.Helper()
		before, totals := b.MustGet("q"), first(b.Totals(ctx))
		n.all.Store(true)
		if err := f(); !errors.Is(err, queue.ErrStoreFull) {
			t.Errorf("%s: %v", what, err)
		}
		n.all.Store(false)
		b.forgive()
		after := b.MustGet("q")
		// a slot may be lost
		before.Next, before.Outflow, before.Lost, before.Bucket = after.Next, after.Outflow, after.Lost, after.Bucket
		// and the next is later; and a client did ask
		before.Ready, before.Asked = after.Ready, after.Asked
		if !reflect.DeepEqual(before, after) || first(b.Totals(ctx)) != totals {
			t.Errorf("%s changed %+v\ninto %+v", what, before, after)
		}
		if err := b.Check(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	limited := queue.Spec{Name: "q", Rate: leaky.PerSecond(20)}
	fails("put", func() error { return second(b.Put(ctx, limited, queue.AnyRevision)) })
	fails("create", func() error { return second(b.Put(ctx, queue.Spec{Name: "new"}, 0)) })
	fails("pause", func() error { return b.Pause(ctx, "q", queue.Pause{Reason: "x"}) })
	fails("delete", func() error { return b.Delete(ctx, "old", queue.AnyRevision, true) })
	b.Advance(time.Second) // so that the ceiling raised by the appends is behind
	request := queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 1}
	fails("reserve", func() error {
		r, err := b.Reserve(ctx, request)
		if err == nil && len(r.Jobs) == 0 { // the slot is lost, and the next is too far off
			err = queue.ErrStoreFull
		}
		return err
	})
	b.Advance(100 * time.Millisecond)
	request.Number++
	r, err := b.Reserve(ctx, request)
	if err != nil || len(r.Jobs) != 1 {
		t.Fatalf("the next request: %+v, %v", r, err)
	}
	b.Number = 2
	fails("fail", func() error { return second(b.Settle(ctx, enginetest.Settlements(queue.Fail, r.Jobs))) })
	fails("bury", func() error { return second(b.Settle(ctx, enginetest.Settlements(queue.Bury, r.Jobs))) })
	fails("throttle", func() error { return second(b.Settle(ctx, enginetest.Settlements(queue.Throttle, r.Jobs))) })
	fails("down", func() error { return second(b.Settle(ctx, enginetest.Settlements(queue.Down, r.Jobs))) })
	fails("deliver", func() error { return second(b.Settle(ctx, enginetest.Settlements(queue.Deliver, r.Jobs))) })

	b.Advance(time.Minute) // the lease runs out, and cannot be taken back
	for range 3 {
		n.all.Store(true)
		request.Number++
		out, err := b.Reserve(ctx, request)
		n.all.Store(false)
		if len(out.Expired) != 0 || b.MustGet("q").Leased != 1 {
			t.Fatalf("%+v, %v, %+v", out, err, b.MustGet("q"))
		}
		b.forgive()
	}
	request.Number++
	if out, err := b.Reserve(ctx, request); err != nil || len(out.Expired) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := b.Delete(ctx, "old", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	fails("sweep", func() error { return second(b.Sweep(ctx, 0)) })
	for more := true; more; {
		if more, err = b.Sweep(ctx, 0); err != nil {
			t.Fatal(err)
		}
	}
	if jobs := b.records(jobsTable); jobs != 3 {
		t.Errorf("%d jobs on file", jobs)
	}
	if _, err := b.Get(ctx, "new"); !errors.Is(err, queue.ErrUnknownQueue) {
		t.Errorf("a queue that was not made: %v", err)
	}
	b.MustPut("new", "1/s")
}

func first[T any](v T, _ error) T { return v }

// A job with a damaged record is not delivered, ends dead, and blocks nothing.
func TestADamagedRecord(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Retry.MaxAttempts = 2 })
	b.AppendTo("q", 0, 3)
	err := b.db.(boltFile).Update(func(tx *bbolt.Tx) error {
		v := tx.Bucket(jobsTable).Get(key(1))
		return tx.Bucket(jobsTable).Put(key(1), v[:len(v)/2])
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.MustReserve(3); len(got) != 2 || got[0].ID != enginetest.Job("q", 1).ID {
		t.Fatalf("%+v", got)
	} else {
		b.MustSettle(queue.Deliver, got)
	}
	for range 2 {
		b.Advance(queue.DefaultLease)
		b.MustReserve(3)
	}
	if i := b.MustGet("q"); i.Dead != 1 || i.Delivered != 2 || i.Size() != 0 {
		t.Errorf("%+v", i)
	}
}
