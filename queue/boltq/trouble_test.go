package boltq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// until polls a condition that another goroutine brings about.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func big(name string, n int) queue.Job {
	return queue.Job{Queue: name, ID: fmt.Sprintf("big-%05d", n), Payload: make([]byte, 4000)}
}

// A full store refuses appends, loses nothing, goes on draining, and takes jobs
// again when there is room.
func TestFullStore(t *testing.T) {
	b := start(t, Options{MaxBytes: 1 << 20})
	ctx := context.Background()
	b.put("q", "unlimited", func(s *queue.Spec) { s.Retention.Max = 1 })
	b.put("slow", "1000/s")
	b.append("slow", 0, 5)
	accepted := map[string]bool{}
	n := 0
	fill := func() {
		t.Helper()
		for {
			a, err := b.Append(ctx, []queue.Job{big("q", n)})
			if err != nil {
				if !errors.Is(err, queue.ErrStoreFull) || !strings.Contains(err.Error(), b.path) || a[0].Outcome != queue.Failed {
					t.Fatalf("%+v, %v", a, err)
				}
				return
			}
			accepted[a[0].ID] = true
			n++
		}
	}
	fill()
	if len(accepted) < 50 {
		t.Fatalf("full after %d", len(accepted))
	}
	if i := b.info("q"); i.Waiting != int64(len(accepted)) || i.Appended != i.Waiting {
		t.Errorf("%d accepted, %+v", len(accepted), i)
	}
	if err := b.Check(ctx); err != nil {
		t.Errorf("a full store is not broken: %v", err)
	}
	for round := range 3 {
		for range 20 {
			got := b.reserve(3)
			for i, s := range b.settleAll(queue.Deliver, got) {
				if s.State != queue.Delivered || s.Err != nil {
					t.Fatalf("round %d: %+v", round, s)
				}
				delete(accepted, got[i].ID)
			}
		}
		until(t, "room again", func() bool {
			a, err := b.Append(ctx, []queue.Job{big("q", n)})
			if err == nil {
				accepted[a[0].ID] = true
				n++
			}
			return err == nil
		})
		fill()
	}
	b.reopen()
	for id := range accepted {
		if j, err := b.Job(ctx, "q", id); err != nil || j.State != queue.Waiting {
			t.Errorf("%s: %v, %v", id, j.State, err)
		}
	}
	if i := b.info("q"); i.Waiting != int64(len(accepted)) {
		t.Errorf("%d accepted and not delivered, %d wait", len(accepted), i.Waiting)
	}
}

// Under a crowd, in a store that is full again and again, exactly what was
// accepted is delivered, and nothing that was refused.
func TestFullStoreUnderACrowd(t *testing.T) {
	b := start(t, Options{MaxBytes: 1 << 20, Now: wall})
	ctx := context.Background()
	b.put("q", "unlimited", func(s *queue.Spec) { s.Retention.Max = 1 })
	var accepted, refused sync.Map
	var full, done atomic.Int64
	var appenders, drainers sync.WaitGroup
	for w := range 8 {
		appenders.Go(func() {
			for i := range 120 {
				j := big("q", w*1000+i)
				a, err := b.Append(ctx, []queue.Job{j})
				switch {
				case err == nil && a[0].Outcome == queue.Accepted:
					accepted.Store(j.ID, true)
				case errors.Is(err, queue.ErrStoreFull):
					refused.Store(j.ID, true)
					full.Add(1)
				default:
					t.Error(a, err)
				}
			}
		})
	}
	ctxDrain, stop := context.WithCancel(ctx)
	delivered := map[string]int{}
	drainers.Go(func() {
		rnd := rand.New(rand.NewPCG(5, 5))
		for n := uint64(1); ; n++ {
			r, err := b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "d"}, Number: n, Max: 1 + rnd.IntN(20)})
			if err != nil {
				t.Error(err)
				return
			}
			for i, s := range b.settleAll(queue.Deliver, r.Jobs) {
				if s.Err != nil {
					t.Errorf("%+v", s)
				}
				delivered[r.Jobs[i].ID]++
				done.Add(1)
			}
			if len(r.Jobs) == 0 && ctxDrain.Err() != nil {
				return
			}
			if done.Load() == 0 { // let it fill up first
				until(t, "full", func() bool { return full.Load() > 0 || ctxDrain.Err() != nil })
			}
		}
	})
	appenders.Wait()
	stop()
	drainers.Wait()
	n := 0
	accepted.Range(func(id, _ any) bool {
		n++
		if delivered[id.(string)] != 1 {
			t.Errorf("%v was delivered %d times", id, delivered[id.(string)])
		}
		return true
	})
	refused.Range(func(id, _ any) bool {
		if delivered[id.(string)] != 0 {
			t.Errorf("%v was refused and delivered", id)
		}
		return true
	})
	if full.Load() == 0 || n == 0 {
		t.Errorf("%d accepted, %d refused", n, full.Load())
	}
	if i := b.info("q"); i.Appended != int64(n) || i.Delivered != int64(n) || i.Size() != 0 {
		t.Errorf("%d accepted: %+v", n, i)
	}
}

// breakable opens the file so that fail makes every further write fail, as a
// disk that is gone does.
type breakable struct{ file *os.File }

func (d *breakable) open(name string, flag int, mode os.FileMode) (f *os.File, err error) {
	d.file, err = os.OpenFile(name, flag, mode)
	return d.file, err
}

func (d *breakable) fail(t testing.TB) {
	t.Helper()
	dull, err := os.Open(d.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer dull.Close()
	if err := syscall.Dup3(int(dull.Fd()), int(d.file.Fd()), syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
}

// After an I/O error nothing more is accepted, granted at a pace that cannot be
// written, or settled; what was acknowledged is there when the file is opened
// again.
func TestIOErrorStopsTheEngine(t *testing.T) {
	d := &breakable{}
	b := start(t, Options{openFile: d.open})
	ctx := context.Background()
	b.put("q", "unlimited")
	b.put("slow", "10/s")
	b.append("q", 0, 10)
	got := b.reserve(3)
	b.settleAll(queue.Deliver, got[:1])
	d.fail(t)

	if _, err := b.Append(ctx, []queue.Job{jobOf("q", 90)}); !errors.Is(err, queue.ErrOutcomeUnknown) || !errors.Is(err, syscall.EBADF) {
		t.Errorf("the append that met it: %v", err)
	}
	for what, err := range map[string]error{
		"append":  second(b.Append(ctx, []queue.Job{jobOf("q", 91)})),
		"settle":  second(b.Settle(ctx, []queue.Settlement{{Lease: queue.Lease{Queue: "q", ID: got[1].ID, Fence: got[1].Fence}, Verdict: queue.Deliver}})),
		"reserve": second(b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "x"}, Number: 1, Max: 1})),
		"put":     second(b.Put(ctx, queue.Spec{Name: "r"}, queue.AnyRevision)),
		"pause":   b.Pause(ctx, "q", ""),
		"check":   b.Check(ctx),
	} {
		if !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if i := b.info("q"); i.Delivered != 1 || i.Waiting != 7 || i.Leased != 2 {
		t.Errorf("to look at: %+v", i)
	}
	b.opts.openFile = nil
	b.reopen()
	if i := b.info("q"); i.Delivered != 1 || i.Waiting != 9 {
		t.Errorf("opened again: %+v", i)
	}
	if _, err := b.Job(ctx, "q", jobOf("q", 90).ID); !errors.Is(err, queue.ErrUnknownJob) {
		t.Errorf("a job that was never on disk: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A grant whose ceiling cannot be written is not given.
func TestNoGrantWithoutItsCeiling(t *testing.T) {
	d := &breakable{}
	b := start(t, Options{openFile: d.open})
	ctx := context.Background()
	b.put("q", "1/m")
	b.append("q", 0, 2)
	b.advance(time.Second)
	d.fail(t)
	r, err := b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 1})
	if !errors.Is(err, queue.ErrOutcomeUnknown) || len(r.Jobs) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if i := b.info("q"); i.Leased != 0 || i.Waiting != 2 {
		t.Errorf("%+v", i)
	}
}

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

func TestACallerWhoGivesUp(t *testing.T) {
	h := holding()
	b := start(t, Options{synced: h.synced})
	b.put("q", "unlimited")
	h.on.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() {
		_, err := b.Append(ctx, []queue.Job{jobOf("q", 1)})
		result <- err
	}()
	<-h.arrived // on disk, and not yet acknowledged
	if got := b.reserve(1); len(got) != 0 {
		t.Errorf("granted before it was acknowledged: %v", got)
	}
	if _, err := b.Job(context.Background(), "q", jobOf("q", 1).ID); !errors.Is(err, queue.ErrUnknownJob) {
		t.Errorf("visible before it was acknowledged: %v", err)
	}
	cancel()
	if err := <-result; !errors.Is(err, queue.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	// The same job, by another caller, waits for the fate of the first.
	again := make(chan queue.Appended)
	go func() {
		a, err := b.Append(context.Background(), []queue.Job{jobOf("q", 1)})
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
	if _, err := b.Append(ended, []queue.Job{jobOf("q", 2)}); !errors.Is(err, context.Canceled) || errors.Is(err, queue.ErrOutcomeUnknown) {
		t.Errorf("a caller who had given up before: %v", err)
	}
}

// Reserved places count: a crowd cannot overfill a queue while commits are under
// way.
func TestPlacesAreReservedBeforeTheCommit(t *testing.T) {
	h := holding()
	b := start(t, Options{synced: h.synced})
	b.put("q", "unlimited", func(s *queue.Spec) { s.Capacity = 3 })
	h.on.Store(true)
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			if a, err := b.Append(context.Background(), []queue.Job{jobOf("q", n)}); err != nil || a[0].Outcome != queue.Accepted {
				t.Error(a, err)
			}
		})
	}
	<-h.arrived
	until(t, "all three have a place", func() bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.lines["q"].entering == 3
	})
	if a, err := b.Append(context.Background(), []queue.Job{jobOf("q", 9)}); err != nil || a[0].Outcome != queue.Full {
		t.Error(a, err)
	}
	h.on.Store(false)
	h.release <- struct{}{}
	wg.Wait()
}

func TestAfterClose(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	b.put("q", "unlimited")
	b.append("q", 0, 2)
	got := b.reserve(1)
	wake := b.Wake(ctx)
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
	for range b.Wake(ctx) {
	}
	lease := queue.Lease{Queue: "q", ID: got[0].ID, Fence: got[0].Fence}
	for what, err := range map[string]error{
		"append":   second(b.Append(ctx, []queue.Job{jobOf("q", 9)})),
		"reserve":  second(b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 9, Max: 1})),
		"settle":   second(b.Settle(ctx, []queue.Settlement{{Lease: lease, Verdict: queue.Release}})),
		"extend":   second(b.Extend(ctx, []queue.Lease{lease})),
		"sweep":    second(b.Sweep(ctx, 0)),
		"put":      second(b.Put(ctx, queue.Spec{Name: "q"}, queue.AnyRevision)),
		"get":      second(b.Get(ctx, "q")),
		"list":     second(b.List(ctx, "", 1)),
		"delete":   b.Delete(ctx, "q", queue.AnyRevision, true),
		"pause":    b.Pause(ctx, "q", ""),
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

// Close commits what was under way, and answers it.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	b := start(t, Options{Now: wall})
	b.put("q", "500/s")
	var wg sync.WaitGroup
	var accepted sync.Map
	var n atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				j := jobOf("q", w*100_000+i)
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
				_, err := b.Reserve(context.Background(), queue.ReserveRequest{Client: queue.Client{ID: fmt.Sprint("c", w)}, Number: i, Max: 3})
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
	until(t, "some are in", func() bool { return n.Load() > 300 })
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

// noSpace fails commits for want of room: those with an append, or all.
type noSpace struct{ appends, all atomic.Bool }

func (n *noSpace) fault(list []change) error {
	for _, c := range list {
		if _, appends := c.(*appending); n.all.Load() || appends && n.appends.Load() {
			return syscall.ENOSPC
		}
	}
	return nil
}

// forgive ends the pause after a commit that found no room.
func (b *bench) forgive() {
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	b.fullTill = time.Time{}
}

// What frees room is not refused for the sake of appends in the same commit.
func TestAppendsFailAlone(t *testing.T) {
	h, n := holding(), &noSpace{}
	b := start(t, Options{synced: h.synced, fault: n.fault})
	ctx := context.Background()
	b.put("q", "unlimited")
	b.put("other", "unlimited")
	b.append("q", 0, 3)
	got := b.reserve(3)
	h.on.Store(true)
	paused := make(chan error)
	go func() { paused <- b.Pause(ctx, "other", "") }()
	<-h.arrived
	h.on.Store(false)
	n.appends.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() {
		a, err := b.Append(ctx, []queue.Job{jobOf("q", 8), jobOf("q", 9)})
		if !errors.Is(err, queue.ErrStoreFull) || a[1].Outcome != queue.Failed {
			t.Errorf("append: %+v, %v", a, err)
		}
	})
	wg.Go(func() {
		for _, s := range b.settleAll(queue.Deliver, got) {
			if s.State != queue.Delivered {
				t.Errorf("settle: %+v", s)
			}
		}
	})
	until(t, "all are pending", func() bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return len(b.pending) == 5
	})
	h.release <- struct{}{}
	wg.Wait()
	if err := <-paused; err != nil {
		t.Error(err)
	}
	n.appends.Store(false)
	b.reopen()
	if i := b.info("q"); i.Delivered != 3 || i.Appended != 3 || i.Size() != 0 {
		t.Errorf("%+v", i)
	}
}

// A commit that fails changes nothing, whatever was in it, and the same works
// when there is room again.
func TestEveryChangeCanFail(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.put("q", "10/s", func(s *queue.Spec) { s.Retry.MaxAttempts = 2 })
	b.put("old", "1/s")
	b.append("old", 0, 3)
	b.append("q", 0, 3)
	if err := b.Pause(ctx, "old", ""); err != nil { // only to be deleted
		t.Fatal(err)
	}
	fails := func(what string, f func() error) {
		t.Helper()
		before, totals := b.info("q"), first(b.Totals(ctx))
		n.all.Store(true)
		if err := f(); !errors.Is(err, queue.ErrStoreFull) {
			t.Errorf("%s: %v", what, err)
		}
		n.all.Store(false)
		b.forgive()
		after := b.info("q")
		before.Next, before.Outflow, before.Lost = after.Next, after.Outflow, after.Lost
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
	fails("pause", func() error { return b.Pause(ctx, "q", "x") })
	fails("delete", func() error { return b.Delete(ctx, "old", queue.AnyRevision, true) })
	b.advance(time.Second) // so that the ceiling that the appends raised is behind
	request := queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 1}
	fails("reserve", func() error { return second(b.Reserve(ctx, request)) })
	b.advance(100 * time.Millisecond) // the slot was lost
	r, err := b.Reserve(ctx, request)
	if err != nil || len(r.Jobs) != 1 {
		t.Fatalf("the same request: %+v, %v", r, err)
	}
	b.number = 1
	fails("fail", func() error { return second(b.Settle(ctx, settlements(queue.Fail, r.Jobs))) })
	fails("bury", func() error { return second(b.Settle(ctx, settlements(queue.Bury, r.Jobs))) })
	fails("deliver", func() error { return second(b.Settle(ctx, settlements(queue.Deliver, r.Jobs))) })

	b.advance(time.Minute) // the lease runs out, and cannot be taken back
	for range 3 {
		n.all.Store(true)
		request.Number++
		out, err := b.Reserve(ctx, request)
		n.all.Store(false)
		if len(out.Expired) != 0 || b.info("q").Leased != 1 {
			t.Fatalf("%+v, %v, %+v", out, err, b.info("q"))
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
	b.put("new", "1/s")
}

func first[T any](v T, _ error) T { return v }
