package boltq

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/internal/series"
)

// A file of an earlier version, without the tables that were added since, is opened, read and written as any other.
func TestFileWithoutAddedTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	open := func(o Options) *Engine {
		t.Helper()
		e, err := Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	shut := func(e *Engine) {
		t.Helper()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	shut(open(Options{}))
	meddle(t, path, func(tx *bbolt.Tx) error {
		for name := range added {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if _, err := CheckFile(t.Context(), path, nil); err != nil {
		t.Errorf("check: %v", err)
	}
	e := open(Options{ReadOnly: true})
	if all, err := e.SamplesSince(t.Context(), 1, 0); len(all) != 0 || err != nil {
		t.Errorf("read only: %v, %v", all, err)
	}
	if _, err := e.PutSample(t.Context(), series.Sample{Series: 1, Number: 1, Data: []byte("x")}, 1); !errors.Is(
		err, ErrReadOnly,
	) {
		t.Errorf("a sample in a file that is only read: %v", err)
	}
	shut(e)
	e = open(Options{})
	for n := range int64(5) {
		s := series.Sample{Series: 1, Number: n + 1, Data: make([]byte, 5000)} // in pieces
		if added, err := e.PutSample(context.Background(), s, 3); !added || err != nil {
			t.Fatal(added, err)
		}
	}
	shut(e)
	e = open(Options{})
	all, err := e.SamplesSince(t.Context(), 1, 0)
	if err != nil || len(all) != 3 || all[0].Number != 3 || len(all[2].Data) != 5000 {
		t.Errorf("%d samples, %v", len(all), err)
	}
	shut(e)
}
