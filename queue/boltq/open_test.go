package boltq

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

func TestOnlyOneHoldsTheFile(t *testing.T) {
	b := start(t, Options{})
	_, err := Open(context.Background(), b.path, Options{LockTimeout: time.Millisecond})
	if !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	for _, want := range []string{b.path, "process", "--redis", "--server"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, b.path, Options{LockTimeout: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	b.MustPut("q", "1/s") // the holder is not affected
	released := make(chan error)
	go func() { released <- b.Close() }()
	e, err := Open(context.Background(), b.path, Options{LockTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := <-released; err != nil {
		t.Error(err)
	}
}

func meddle(t *testing.T, path string, f func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(f), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  error
		says  string
	}{
		{"of a newer schema", func(t *testing.T, path string) {
			meddle(t, path, func(tx *bbolt.Tx) error {
				return tx.Bucket(machine.MetaTable).Put(schemaKey, binary.BigEndian.AppendUint32(nil, schema+1))
			})
		}, ErrSchema, fmt.Sprintf("its schema is %d, this version supports up to %d; upgrade", schema+1, schema)},
		{"of a schema that no version has", func(t *testing.T, path string) {
			meddle(t, path, func(tx *bbolt.Tx) error {
				if err := tx.DeleteBucket(deferredTable); err != nil {
					return err
				}
				return tx.Bucket(machine.MetaTable).Put(schemaKey, binary.BigEndian.AppendUint32(nil, 0))
			})
		}, ErrSchema, "its schema is 0"},
		{"of another program", func(t *testing.T, path string) {
			meddle(t, path, func(tx *bbolt.Tx) error {
				for _, name := range machine.Tables {
					if err := tx.DeleteBucket(name); err != nil {
						return err
					}
				}
				_, err := tx.CreateBucket([]byte("theirs"))
				return err
			})
		}, queue.ErrCorrupt, "another program"},
		{"with a table missing", func(t *testing.T, path string) {
			meddle(t, path, func(tx *bbolt.Tx) error { return tx.DeleteBucket(jobsTable) })
		}, queue.ErrCorrupt, "damaged; restore a backup (penstock check --data DIR checks the whole file): " +
			queue.ErrCorrupt.Error() + ": table jobs is missing"},
		{"with a strange record", func(t *testing.T, path string) {
			meddle(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(jobsTable).Put(key(1), []byte{1, 2}) })
		}, queue.ErrCorrupt, "jobs"},
		{"with a strange key", func(t *testing.T, path string) {
			meddle(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(endedTable).Put([]byte("k"), nil) })
		}, queue.ErrCorrupt, "ended"},
		{"of noise", func(t *testing.T, path string) {
			if err := os.WriteFile(path, bytes.Repeat([]byte("noise"), 10_000), 0o600); err != nil {
				t.Fatal(err)
			}
		}, queue.ErrCorrupt, "a file of another program"},
		{"that is empty", func(t *testing.T, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}, queue.ErrCorrupt, "the file is empty; restore a backup, or remove it to create a new store"},
		{"cut short", func(t *testing.T, path string) {
			if err := os.Truncate(path, 3*int64(os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
		}, queue.ErrCorrupt, "damaged; restore a backup"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, Options{})
			b.MustPut("q", "1/s")
			b.AppendTo("q", 0, 100)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, b.path)
			before, _ := os.ReadFile(b.path)
			for range 2 { // the first attempt leaves no lock behind
				_, err := Open(context.Background(), b.path, Options{})
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), b.path) ||
					!strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
			}
			if after, _ := os.ReadFile(b.path); !bytes.Equal(before, after) {
				t.Error("the refused file was changed")
			}
		})
	}
}

func TestAFileThatCannotBeMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "store")
	if _, err := Open(context.Background(), path, Options{}); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	for _, o := range []Options{{LockTimeout: -1}, {MaxBytes: -1}, {Memory: -1}} {
		if _, err := Open(context.Background(), filepath.Join(t.TempDir(), "store"), o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
}

func TestCheckNoticesAnotherFile(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	if err := b.Check(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.path, b.path+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(ctx); !errors.Is(err, queue.ErrNoStore) {
		t.Errorf("removed: %v", err)
	}
	if err := os.WriteFile(b.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(ctx); !errors.Is(err, queue.ErrNoStore) {
		t.Errorf("replaced: %v", err)
	}
}
