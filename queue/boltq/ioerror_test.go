package boltq

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

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

// After an I/O error nothing is accepted, granted or settled; everything acknowledged is there when the file is opened
// again.
func TestIOErrorStopsTheEngine(t *testing.T) {
	d := &breakable{}
	b := start(t, Options{openFile: d.open})
	ctx := context.Background()
	b.MustPut("q", "unlimited")
	b.MustPut("slow", "10/s")
	b.AppendTo("q", 0, 10)
	got := b.MustReserve(3)
	b.MustSettle(queue.Deliver, got[:1])
	d.fail(t)

	if _, err := b.Append(ctx, []queue.Job{enginetest.Job("q", 90)}); !errors.Is(err, queue.ErrOutcomeUnknown) ||
		!errors.Is(err, syscall.EBADF) {
		t.Errorf("the append that met it: %v", err)
	}
	for what, err := range map[string]error{
		"append": second(b.Append(ctx, []queue.Job{enginetest.Job("q", 91)})),
		"settle": second(b.Settle(ctx, []queue.Settlement{{
			Lease: queue.Lease{Queue: "q", ID: got[1].ID, Fence: got[1].Fence}, Verdict: queue.Deliver,
		}})),
		"reserve": second(b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "x"}, Number: 1, Max: 1})),
		"put":     second(b.Put(ctx, queue.Spec{Name: "r"}, queue.AnyRevision)),
		"pause":   b.Pause(ctx, "q", queue.Pause{}),
		"offer":   second(b.Offer(ctx, []queue.Job{enginetest.Job("q", 92)})),
		"cancel":  second(b.Cancel(ctx, "q", enginetest.Job("q", 5).ID)),
		"readmit": second(b.Readmit(ctx, queue.ReadmitRequest{Queue: "q", Holder: "h", Behind: 1})),
		"check":   b.Check(ctx),
	} {
		if !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if i := b.MustGet("q"); i.Delivered != 1 || i.Waiting != 7 || i.Leased != 2 {
		t.Errorf("to look at: %+v", i)
	}
	b.opts.openFile = nil
	b.reopen()
	if i := b.MustGet("q"); i.Delivered != 1 || i.Waiting != 9 {
		t.Errorf("opened again: %+v", i)
	}
	if _, err := b.Job(ctx, "q", enginetest.Job("q", 90).ID); !errors.Is(err, queue.ErrUnknownJob) {
		t.Errorf("a job that was never on disk: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A grant whose ceiling cannot be written is not given.
func TestNoGrantWithoutItsCeiling(t *testing.T) {
	d := &breakable{}
	b := start(t, Options{openFile: d.open})
	ctx := context.Background()
	b.MustPut("q", "1/m")
	b.AppendTo("q", 0, 2)
	b.Advance(time.Second)
	d.fail(t)
	r, err := b.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 1})
	if !errors.Is(err, queue.ErrOutcomeUnknown) || len(r.Jobs) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if i := b.MustGet("q"); i.Leased != 0 || i.Waiting != 2 {
		t.Errorf("%+v", i)
	}
}
