package boltq

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// exported returns all of a queue.
func (b *bench) exported(name string) (moved move.Queue, jobs []move.Job) {
	b.Helper()
	ctx := context.Background()
	moved = first(b.ExportQueue(ctx, name))
	for _, s := range []queue.State{queue.Dead, queue.Scheduled, queue.Waiting, queue.Delivered} {
		jobs = append(jobs, first(b.ExportJobs(ctx, move.ExportRequest{Queue: name, State: s})).Jobs...)
	}
	return moved, jobs
}

// Each step of an import can fail for lack of room, changes nothing then, and works when there is room again. An import
// continues over a reopening at any point.
func TestEveryStepOfAnImportCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.MustPut("q", "unlimited")
	lane := enginetest.Job("q", 3)
	lane.Lane, lane.Cost = "a", 5
	later := enginetest.Job("q", 4)
	later.NotBefore = noon.Add(time.Hour).Time()
	b.AppendTo("q", 0, 3)
	v := b.MustReserve(3)
	b.MustSettle(queue.Bury, v[:1])
	b.MustSettle(queue.Deliver, v[1:2])
	b.MustSettle(queue.Fail, v[2:])
	b.MustAppend(lane, later)
	moved, jobs := b.exported("q")
	if len(jobs) != 5 {
		t.Fatalf("%d jobs exported", len(jobs))
	}
	if err := b.Delete(ctx, "q", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}

	b.MustPut("q", "unlimited")
	open := func() error { return second(b.OpenImport(ctx, moved, "m")) }
	fill := func() error { return second(b.ImportJobs(ctx, "q", "m", jobs)) }
	end := func() error { return b.CloseImport(ctx, moved, "m") }
	for _, step := range []struct {
		what string
		do   func() error
	}{{"open", open}, {"fill", fill}, {"end", end}} {
		n.refuse(b, step.what, step.do)
		for range 2 {
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
		}
		b.reopen()
	}
	moved.Import = "m"
	is, left := b.exported("q")
	if got, want := fmt.Sprintf("%+v", left), fmt.Sprintf("%+v", jobs); got != want {
		t.Errorf("exported\n%s\nwant\n%s", got, want)
	}
	if is.Counts != moved.Counts || is.Turn != moved.Turn || is.Held != moved.Held || is.Dead != moved.Dead || is.Open {
		t.Errorf("exported\n%+v\nwant\n%+v", is, moved)
	}
}

// A step of an import of queues can fail for lack of room, changes nothing then, and works when there is room again. It
// survives a reopening.
func TestImportOfQueuesCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.MustPut("q", "unlimited")
	b.AppendTo("q", 0, 2)
	v := b.MustReserve(2)
	b.MustSettle(queue.Deliver, v)
	moved, _ := b.exported("q")
	queues := []move.Queue{moved, moved, moved}
	queues[0].Spec.Name, queues[1].Spec.Name, queues[2].Spec.Name = "p", "r", "r.child"
	n.refuse(b, "import", func() error { return second(b.ImportQueues(ctx, queues, "m")) })
	for range 2 {
		if done := first(b.ImportQueues(ctx, queues, "m")); fmt.Sprint(done) != "[true true true]" {
			t.Fatalf("imported %v", done)
		}
		b.reopen()
	}
	for _, want := range queues {
		is, jobs := b.exported(want.Spec.Name)
		if is.Import != "m" || is.Open || is.Counts != want.Counts || is.Turn != want.Turn || len(jobs) > 0 {
			t.Errorf("exported %+v, want %+v", is, want)
		}
	}
}
