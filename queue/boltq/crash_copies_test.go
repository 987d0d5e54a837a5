package boltq

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// copies are what a power cut would have left of a file at each commit: taken when the commit is on disk and not
// acknowledged yet.
type copies struct {
	testing.TB
	dir string
	of  *Engine // set before the first commit to be copied
	n   atomic.Int64
}

func (c *copies) path(i int64) string { return filepath.Join(c.dir, fmt.Sprintf("%05d", i)) }

func (c *copies) take() {
	if c.of == nil {
		return
	}
	var size int64
	if err := c.of.db.(boltFile).View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil }); err != nil {
		c.Error(err)
		return
	}
	from, err := os.Open(c.of.path)
	if err != nil {
		c.Error(err)
		return
	}
	defer from.Close()
	to, err := os.Create(c.path(c.n.Load() + 1))
	if err != nil {
		c.Error(err)
		return
	}
	defer to.Close()
	if _, err := io.Copy(to, io.LimitReader(from, size)); err != nil {
		c.Error(err)
		return
	}
	c.n.Add(1)
}

// tear undoes the last page that a commit writes, as if the power had failed between its two fsyncs, with the data on
// disk but not the root.
func tear(t testing.TB, path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := int64(os.Getpagesize())
	var latest, at uint64
	for i := range int64(2) { // the two roots: a header of 16 bytes, then txid at 48
		var b [8]byte
		if _, err := f.ReadAt(b[:], i*page+16+48); err != nil {
			t.Fatal(err)
		}
		if id := binary.NativeEndian.Uint64(b[:]); id >= latest {
			latest, at = id, uint64(i)
		}
	}
	if _, err := f.WriteAt(make([]byte, page), int64(at)*page); err != nil {
		t.Fatal(err)
	}
}

// Acknowledged changes are in the copy taken before, and survive a power cut during the next commit.
func TestAcknowledgedIsOnDisk(t *testing.T) {
	c := &copies{TB: t, dir: t.TempDir()}
	b := start(t, Options{synced: c.take})
	b.MustPut("q", "unlimited")
	c.of = b.Engine

	type ack struct {
		id    string
		state queue.State
		copy  int64
	}
	var mu sync.Mutex
	var acks []ack
	note := func(id string, s queue.State) {
		at := c.n.Load()
		mu.Lock()
		defer mu.Unlock()
		acks = append(acks, ack{id, s, at})
	}
	const writers, each = 16, 12
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				j := enginetest.Job("q", w*each+i)
				a, err := b.Append(context.Background(), []queue.Job{j})
				if err != nil || a[0].Outcome != queue.Accepted {
					t.Error(a, err)
					return
				}
				note(j.ID, queue.Waiting)
			}
		})
	}
	wg.Go(func() {
		verdicts := []queue.Verdict{queue.Deliver, queue.Fail, queue.Bury}
		states := []queue.State{queue.Delivered, queue.Scheduled, queue.Dead}
		for n := 0; n < 60; {
			for _, r := range b.MustReserve(2) {
				if s := b.MustSettle(verdicts[n%3], []queue.Reservation{r})[0]; s.State != states[n%3] {
					t.Errorf("%+v", s)
				}
				note(r.ID, states[n%3])
				n++
			}
		}
	})
	wg.Wait()
	taken := c.n.Load()
	if taken < 10 {
		t.Fatalf("%d copies", taken)
	}

	check := func(i, upTo int64) {
		e, err := Open(context.Background(), c.path(i), Options{Now: b.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for _, a := range acks {
			if a.copy > upTo {
				continue
			}
			got, err := e.Job(context.Background(), "q", a.id)
			if err != nil || a.state != queue.Waiting && got.State != a.state {
				t.Errorf(
					"copy %d: %s was acknowledged as %v before copy %d, and is %v, %v", i, a.id, a.state, a.copy,
					got.State, err,
				)
			}
		}
	}
	for i := int64(2); i <= taken; i++ {
		check(i, i)
		tear(t, c.path(i))
		check(i, i-1)
	}
}
