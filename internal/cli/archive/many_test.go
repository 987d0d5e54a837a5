package archive_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
)

// manyQueues writes an archive of so many queues without jobs.
func manyQueues(t testing.TB, n int) []byte {
	t.Helper()
	e, clock := newStore(t)
	put(t, e, "q000000", "14/s")
	clock.Advance(time.Second)
	file, _ := export(t, e, archive.ExportOptions{})
	return archive.Multiplied(t, file, n)
}

// meeting is a store that opens no queue before so many are about to be opened.
type meeting struct {
	archive.Target
	wait sync.WaitGroup
}

func (m *meeting) OpenImport(ctx context.Context, q move.Queue, mark string) (bool, error) {
	m.wait.Done()
	m.wait.Wait()
	return m.Target.OpenImport(ctx, q, mark)
}

// Queues are put in together, so that an embedded store has them on disk in few commits.
func TestImportTogether(t *testing.T) {
	const n = 8
	clock := queuetest.NewClock()
	m := &meeting{Target: embedded(t, filepath.Join(t.TempDir(), "new"), clock)}
	m.wait.Add(n)
	file := verify(t, manyQueues(t, n))
	done, err := file.Import(t.Context(), m, archive.ImportOptions{Together: 4096})
	if err != nil || done.Queues != n {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestImportManyQueues(t *testing.T) {
	const n = 2000
	to := embedded(t, filepath.Join(t.TempDir(), "new"), queuetest.NewClock())
	file := verify(t, manyQueues(t, n))
	done, err := file.Import(t.Context(), to, archive.ImportOptions{Together: 4096})
	if err != nil || done.Queues != n {
		t.Fatalf("%+v, %v", done, err)
	}
	seen := 0
	for after := ""; ; {
		list, err := to.List(t.Context(), after, 500)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if want := fmt.Sprintf("q%06d", seen); i.Spec.Name != want || i.Pause.On() {
				t.Fatalf("%s, paused %v, want %s", i.Spec.Name, i.Pause.On(), want)
			}
			seen++
			after = i.Spec.Name
		}
		if len(list) == 0 {
			break
		}
	}
	if seen != n {
		t.Errorf("%d queues", seen)
	}
	done, err = file.Import(t.Context(), to, archive.ImportOptions{Together: 4096})
	if err != nil || done.Queues != n {
		t.Errorf("repeated: %+v, %v", done, err)
	}
}

// The goal is 20,000 queues a second, on two cores that nobody else uses. On Redis, two entries of the audit log for a
// queue take most of the time: a script computes their digests.
func BenchmarkImportQueues(b *testing.B) {
	const n = 20_000
	text := manyQueues(b, n)
	for _, c := range []struct {
		name     string
		together int
		open     func(*testing.B) archive.Target
	}{
		{"embedded", 4096, func(b *testing.B) archive.Target {
			return embedded(b, filepath.Join(b.TempDir(), "new"), queuetest.NewClock())
		}},
		{"redis", 0, func(b *testing.B) archive.Target {
			return onRedis(b, redistest.New(b, redistest.Options{}).Client(), "ps", 16, queuetest.NewClock())
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				to, file := c.open(b), verify(b, text)
				if _, err := file.Import(b.Context(), to, archive.ImportOptions{Together: c.together}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "queues/s")
		})
	}
}

// counted counts calls that look for single queues, and calls that list queues.
type counted struct {
	archive.Target
	asked, lists int
}

func (c *counted) ExportQueue(ctx context.Context, name string) (move.Queue, error) {
	c.asked++
	return c.Target.ExportQueue(ctx, name)
}

func (c *counted) List(ctx context.Context, after string, limit int) ([]queue.Info, error) {
	c.lists++
	return c.Target.List(ctx, after, limit)
}

// An import lists the store, and asks only for queues of the file that are there already.
func TestImportAsksOfWhatIsThere(t *testing.T) {
	const n = 1000
	to := embedded(t, filepath.Join(t.TempDir(), "new"), queuetest.NewClock())
	for i := range 700 { // more than two pages before, between and behind the queues of the file
		put(t, to, fmt.Sprintf("a%06d", i), "1/s")
		put(t, to, fmt.Sprintf("q%06d-beside", i), "1/s")
		put(t, to, fmt.Sprintf("z%06d", i), "1/s")
	}
	put(t, to, "q000500", "14/s")
	c := &counted{Target: to}
	file := verify(t, manyQueues(t, n))
	done, err := file.Import(t.Context(), c, archive.ImportOptions{Together: 4096})
	if err != nil || done.Queues != n {
		t.Fatalf("%+v, %v", done, err)
	}
	if c.asked != 1 || c.lists > 15 {
		t.Errorf("%d queues were asked about and %d pages listed", c.asked, c.lists)
	}
}
