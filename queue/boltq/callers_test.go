package boltq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// held blocks the committer between disk and acknowledgement.
type held struct {
	on      atomic.Bool
	arrived chan struct{}
	release chan struct{}
}

func (h *held) synced() {
	if h.on.Load() {
		h.arrived <- struct{}{}
		<-h.release
	}
}

func holding() *held { return &held{arrived: make(chan struct{}), release: make(chan struct{})} }

// giveUp returns the context of a caller that gives up as soon as it has to wait, and not before.
func giveUp() context.Context { return &impatient{Context: context.Background()} }

type impatient struct {
	context.Context
	waits atomic.Bool
}

func (c *impatient) Done() <-chan struct{} {
	c.waits.Store(true)
	over := make(chan struct{})
	close(over)
	return over
}

func (c *impatient) Err() error {
	if c.waits.Load() {
		return context.Canceled
	}
	return nil
}

func TestACallerWhoGivesUp(t *testing.T) {
	h := holding()
	b := start(t, Options{synced: h.synced})
	b.MustPut("q", "unlimited")
	h.on.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() {
		_, err := b.Append(ctx, []queue.Job{enginetest.Job("q", 1)})
		result <- err
	}()
	<-h.arrived // on disk, not acknowledged yet
	if got := b.MustReserve(1); len(got) != 0 {
		t.Errorf("granted before it was acknowledged: %v", got)
	}
	if _, err := b.Job(giveUp(), "q", enginetest.Job("q", 1).ID); !errors.Is(err, queue.ErrOutcomeUnknown) {
		t.Errorf("visible before it was acknowledged: %v", err)
	}
	cancel()
	if err := <-result; !errors.Is(err, queue.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	// The same job from another caller waits for the fate of the first.
	again := make(chan queue.Appended)
	go func() {
		a, err := b.Append(context.Background(), []queue.Job{enginetest.Job("q", 1)})
		if err != nil {
			t.Error(err)
		}
		again <- a[0]
	}()
	h.on.Store(false)
	h.release <- struct{}{}
	if a := <-again; a.Outcome != queue.Duplicate || a.State != queue.Waiting {
		t.Errorf("%+v", a)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Append(ended, []queue.Job{enginetest.Job("q", 2)}); !errors.Is(err, context.Canceled) ||
		errors.Is(err, queue.ErrOutcomeUnknown) {
		t.Errorf("a caller who had given up before: %v", err)
	}
}

// Reserved places count: a crowd cannot overfill a queue while commits are under
// way.
func TestPlacesAreReservedBeforeTheCommit(t *testing.T) {
	h := holding()
	b := start(t, Options{synced: h.synced})
	b.MustPut("q", "unlimited", func(s *queue.Spec) { s.Capacity = 3 })
	h.on.Store(true)
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			j := enginetest.Job("q", n)
			j.Payload = make([]byte, 100_000)
			if a, err := b.Append(context.Background(), []queue.Job{j}); err != nil ||
				a[0].Outcome != queue.Accepted {
				t.Error(a, err)
			}
		})
	}
	<-h.arrived
	await.Until(t, "all three have a place", func() bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.machine.PendingBytes() > 300_000
	})
	a, err := b.Append(context.Background(), enginetest.Jobs("q", 9, 1))
	if err != nil || a[0].Outcome != queue.Full {
		t.Error(a, err)
	}
	h.on.Store(false)
	h.release <- struct{}{}
	wg.Wait()
}

func TestAfterClose(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.MustPut("q", "unlimited")
	b.AppendTo("q", 0, 2)
	got := b.MustReserve(1)
	wake, room := b.Wake(ctx), b.Room(ctx)
	cancelled, cancel := context.WithCancel(ctx)
	other := b.Wake(cancelled)
	cancel()
	for range other { // ends with its context
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range wake { // and with the engine
	}
	for range room {
	}
	for range b.Room(ctx) {
	}
	for range b.Wake(ctx) {
	}
	lease := queue.Lease{Queue: "q", ID: got[0].ID, Fence: got[0].Fence}
	for what, err := range map[string]error{
		"append":   second(b.Append(ctx, []queue.Job{enginetest.Job("q", 9)})),
		"offer":    second(b.Offer(ctx, []queue.Job{enginetest.Job("q", 9)})),
		"withdraw": second(b.Withdraw(ctx, []queue.Ticketed{{Queue: "q", ID: "x"}})),
		"readmit":  second(b.Readmit(ctx, queue.ReadmitRequest{Queue: "q", Holder: "h"})),
		"backlogs": second(b.Backlogged(ctx, 1)),
		"cancel":   second(b.Cancel(ctx, "q", enginetest.Job("q", 1).ID)),
		"reserve":  second(b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 9, Max: 1})),
		"settle":   second(b.Settle(ctx, []queue.Settlement{{Lease: lease, Verdict: queue.Release}})),
		"extend":   second(b.Extend(ctx, []queue.Lease{lease})),
		"sweep":    second(b.Sweep(ctx, 0)),
		"put":      second(b.Put(ctx, queue.Spec{Name: "q"}, queue.AnyRevision)),
		"get":      second(b.Get(ctx, "q")),
		"list":     second(b.List(ctx, "", 1)),
		"delete":   b.Delete(ctx, "q", queue.AnyRevision, true),
		"pause":    b.Pause(ctx, "q", queue.Pause{}),
		"resume":   b.Resume(ctx, "q"),
		"totals":   second(b.Totals(ctx)),
		"drainers": second(b.Drainers(ctx)),
		"job":      second(b.Job(ctx, "q", "x")),
		"check":    b.Check(ctx),
	} {
		if !errors.Is(err, queue.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Close commits what was in progress, and answers it.
func TestCloseFinishesPendingCalls(t *testing.T) {
	b := start(t, Options{Now: wall})
	b.MustPut("q", "500/s")
	var wg sync.WaitGroup
	var accepted sync.Map
	var n atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				j := enginetest.Job("q", w*100_000+i)
				a, err := b.Append(context.Background(), []queue.Job{j})
				if errors.Is(err, queue.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if a[0].Outcome == queue.Accepted {
					accepted.Store(j.ID, true)
					n.Add(1)
				}
			}
		})
		wg.Go(func() {
			for i := uint64(1); ; i++ {
				_, err := b.Reserve(context.Background(), queue.ReserveRequest{
					Client: queue.Client{ID: fmt.Sprint("c", w)}, Number: i, Max: 3,
				})
				if errors.Is(err, queue.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	await.Until(t, "some are in", func() bool { return n.Load() > 300 })
	e := b.Engine
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	b.open(e.path)
	accepted.Range(func(id, _ any) bool {
		if j, err := b.Job(context.Background(), "q", id.(string)); err != nil || j.State != queue.Waiting {
			t.Errorf("%v: %v, %v", id, j.State, err)
		}
		return true
	})
}
