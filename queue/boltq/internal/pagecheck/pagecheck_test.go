package pagecheck

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

func check(t testing.TB, path string) (Counts, error) {
	t.Helper()
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(from, info.Size())
	if err != nil {
		return Counts{}, err
	}
	return f.Check(t.Context(), nil)
}

// Files that bbolt writes are sound: with inline tables, trees of several levels, values of many pages, and with or
// without a list of free pages.
func TestBboltFilesAreSound(t *testing.T) {
	for _, noFreelist := range []bool{true, false} {
		r := rand.New(rand.NewPCG(1, 2))
		path := filepath.Join(t.TempDir(), "db")
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: noFreelist, PageSize: 1024})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := check(t, path); err != nil {
			t.Errorf("a new file: %v", err)
		}
		for round := range 160 {
			err := db.Update(func(tx *bbolt.Tx) error {
				for range 1 + r.IntN(60) {
					b, err := tx.CreateBucketIfNotExists(fmt.Appendf(nil, "table%d", r.IntN(4)))
					if err != nil {
						return err
					}
					key := fmt.Appendf(nil, "%0*d", 1+r.IntN(12), r.IntN(3000))
					if r.IntN(5) < 2+round/40%2 {
						err = b.Delete(key)
					} else {
						err = b.Put(key, make([]byte, []int{0, 8, 100, 700, 5000}[r.IntN(5)]))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			records := int64(0)
			_ = db.View(func(tx *bbolt.Tx) error {
				return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
					return b.ForEach(func(_, _ []byte) error { records++; return nil })
				})
			})
			if n, err := check(t, path); err != nil || n.Records != records {
				t.Fatalf("round %d: %d records of %d, %v", round, n.Records, records, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Other files are distinguished from the remains of a bbolt file.
func TestRemainsOfABboltFile(t *testing.T) {
	for _, c := range []struct {
		name, text string
		foreign    bool
	}{
		{"a text", strings.Repeat("a text of somebody's\n", 5000), true},
		{"a short text", "x", true},
		{"zeros", string(make([]byte, 1<<16)), false},
	} {
		_, err := Open(strings.NewReader(c.text), int64(len(c.text)))
		if fault := (*Fault)(nil); errors.Is(err, ErrForeign) != c.foreign || errors.As(err, &fault) == c.foreign {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A file that is truncated while it is read, or unreadable, causes no panic.
func TestReaderFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 70, 4096, 8200, 12_288} {
		_, err := Open(strings.NewReader(string(whole[:n])), int64(len(whole)))
		if fault := (*Fault)(nil); !errors.As(err, &fault) {
			t.Errorf("cut at %d: %v", n, err)
		}
		if _, err := Open(failing{}, int64(len(whole))); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, io.ErrClosedPipe }
