package boltq

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A file opened read-only stays unchanged by all calls, and by several readers at a time.
func TestReadOnly(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "1/s", func(s *queue.Spec) { s.OnUnknown = queue.UnknownHold })
	b.AppendTo("q", 0, 5)
	b.MustReserve(1) // its lease is on file, and another opener would take it back
	path := b.path
	c := &copies{TB: t, dir: t.TempDir(), of: b.Engine}
	c.take()
	before, err := os.ReadFile(c.path(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, ErrLocked) {
		t.Errorf("of a file in use: %v", err)
	}
	open := func() *Engine {
		e, err := Open(t.Context(), c.path(1), Options{ReadOnly: true, Now: b.Now, KeepChanges: queue.KeepChanges})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e, other := open(), open()
	ctx := context.Background()
	if i, err := e.Get(ctx, "q"); err != nil || i.Size() != 5 {
		t.Errorf("%+v, %v", i, err)
	}
	if err := errors.Join(e.Check(ctx), second(e.Totals(ctx)), second(e.Space(ctx)), second(e.Readings(ctx))); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"append":  second(e.Append(ctx, []queue.Job{enginetest.Job("q", 9)})),
		"reserve": second(e.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "c"}, Number: 1, Max: 1})),
		"put":     second(e.Put(ctx, queue.Spec{Name: "new", Rate: leaky.Unlimited}, 0)),
		"pause":   e.Pause(ctx, "q", queue.Pause{}),
		"delete":  e.Delete(ctx, "q", queue.AnyRevision, true),
		"sweep":   second(e.Sweep(ctx, 0)),
	} {
		if !errors.Is(err, ErrReadOnly) || !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(e.Close(), other.Close(), e.Close()); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(c.path(1)); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed: %v", err)
	}
	none := filepath.Join(t.TempDir(), "none")
	if _, err := Open(ctx, none, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("it was made")
	}
}
