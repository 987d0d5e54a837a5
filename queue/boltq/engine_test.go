package boltq

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(useTornIn); dir != "" {
		useTorn(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// bench is an engine on its own file, and a caller.
type bench struct {
	*Engine
	*enginetest.Caller
	opts Options
}

func wall() leaky.Instant { return leaky.Instant(time.Now().UnixMicro()) }

const noon = enginetest.Noon

func start(t testing.TB, opts Options) *bench {
	b := &bench{Caller: enginetest.New(t), opts: opts}
	if opts.Now == nil {
		b.opts.Now = b.Now
	}
	b.open(filepath.Join(t.TempDir(), "store"))
	return b
}

func (b *bench) open(path string) {
	b.Helper()
	e, err := Open(context.Background(), path, b.opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Engine, b.Callee = e, e
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
}

func (b *bench) reopen() {
	b.Helper()
	if err := b.Close(); err != nil {
		b.Fatal(err)
	}
	b.open(b.path)
}

func TestInOutAndAgain(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited")
	b.AppendTo("q", 0, 10)
	got := b.MustReserve(4)
	for i, r := range got {
		if want := enginetest.Job("q", i); r.ID != want.ID || string(r.Payload) != string(want.Payload) {
			t.Fatalf("granted %s %s, want %s", r.ID, r.Payload, want.ID)
		}
	}
	for _, s := range b.MustSettle(queue.Deliver, got) {
		if s.State != queue.Delivered {
			t.Fatalf("%+v", s)
		}
	}
	b.reopen()
	i := b.MustGet("q")
	if i.Waiting != 6 || i.Delivered != 4 || i.Appended != 10 {
		t.Fatalf("%+v", i)
	}
}
