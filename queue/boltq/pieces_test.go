package boltq

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// A value of any length is read whole, with any cursor, and leaves nothing when it is deleted.
func TestPieces(t *testing.T) {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lengths := []int{0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 2*pieceBytes - 1, 2 * pieceBytes, 900_001, 3, 4000}
	value := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, lengths[n-1]) }
	check := func(what string, n int, k, v []byte) {
		t.Helper()
		if n < 1 || n > len(lengths) {
			if k != nil {
				t.Errorf("%s: %x behind the end", what, k)
			}
			return
		}
		if !bytes.Equal(k, key(uint64(n))) || !bytes.Equal(v, value(n)) {
			t.Errorf("%s: key %x with %d bytes, want %d with %d", what, k, len(v), n, lengths[n-1])
		}
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(jobsTable)
		if err != nil {
			return err
		}
		table := boltTx{tx}.Table(jobsTable)
		for n := range lengths {
			if err := table.Put(key(uint64(n+1)), value(n+1)); err != nil {
				return err
			}
		}
		c := table.Cursor()
		n := 0
		for k, v := c.First(); k != nil; k, v = c.Next() {
			n++
			check("next", n, k, v)
		}
		for k, v := c.Last(); k != nil; k, v = c.Prev() {
			check("prev", n, k, v)
			n--
		}
		if n != 0 {
			t.Errorf("back at %d", n)
		}
		for n := range len(lengths) + 1 {
			k, v := c.Seek(key(uint64(n + 1)))
			check("seek", n+1, k, v)
			k, v = c.Prev()
			check("before", n, k, v)
			if n < len(lengths) {
				check("get", n+1, key(uint64(n+1)), table.Get(key(uint64(n+1))))
			}
		}
		for _, n := range []int{8, 1, 6, 4, 10, 2, 3, 9, 7, 5} {
			if err := table.Delete(key(uint64(n))); err != nil {
				return err
			}
			if v := table.Get(key(uint64(n))); v != nil {
				t.Errorf("%d bytes of %d are left", len(v), n)
			}
		}
		if k, _ := b.Cursor().First(); k != nil {
			t.Errorf("%x is left", k)
		}
		// Values that an earlier version wrote in one piece.
		if err := b.Put(key(1), value(8)); err != nil {
			return err
		}
		if got := table.Get(key(1)); !bytes.Equal(got, value(8)) {
			t.Errorf("an old value has %d bytes", len(got))
		}
		return table.Delete(key(1))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// However the large jobs of one queue come and go in a limited file, there is room for the small jobs of another.
func TestLargeJobsLeaveRoomForSmallOnes(t *testing.T) {
	b := start(t, Options{MaxBytes: 16 << 20})
	ctx := context.Background()
	b.MustPut("large", "unlimited", func(s *queue.Spec) { s.MaxBytes = queue.MostMaxBytes })
	b.MustPut("small", "1/h")
	refused := 0
	for n := range 200 {
		size := 500_000 + 100_000*(n%5)
		_, err := b.Append(ctx, []queue.Job{{Queue: "large", ID: fmt.Sprint(n), Payload: make([]byte, size)}})
		if err != nil {
			refused++
		}
		if n%3 > 0 {
			b.MustSettle(queue.Bury, b.MustReserve(3))
		}
		if a, err := b.Append(ctx, []queue.Job{enginetest.Job("small", n)}); err != nil || a[0].Outcome != queue.Accepted {
			t.Fatalf("small job %d, after %d large ones were refused: %+v, %v", n, refused, a, err)
		}
	}
	if refused == 0 {
		t.Error("the large jobs did not come to the bound")
	}
}
