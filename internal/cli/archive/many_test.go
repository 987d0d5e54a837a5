package archive_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
)

// manyQueues writes an archive of so many queues, each with so many jobs.
func manyQueues(t testing.TB, n, jobs int) []byte {
	t.Helper()
	e, clock := newStore(t)
	put(t, e, "q000000", "14/s")
	for i := range jobs {
		add(t, e, job("q000000", i))
	}
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

// Queues with jobs are imported concurrently, so that an embedded store writes them to disk in few commits.
func TestImportTogether(t *testing.T) {
	const n = 8
	clock := queuetest.NewClock()
	m := &meeting{Target: embedded(t, filepath.Join(t.TempDir(), "new"), clock)}
	m.wait.Add(n)
	file := verify(t, manyQueues(t, n, 1))
	done, err := file.Import(t.Context(), m, archive.ImportOptions{Together: 4096})
	if err != nil || done.Queues != n {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestImportManyQueues(t *testing.T) {
	const n = 2000
	to := embedded(t, filepath.Join(t.TempDir(), "new"), queuetest.NewClock())
	file := verify(t, manyQueues(t, n, 0))
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

// The goal is 20,000 queues a second, on two cores that nobody else uses.
func BenchmarkImportQueues(b *testing.B) {
	const n = 20_000
	text := manyQueues(b, n, 0)
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
	file := verify(t, manyQueues(t, n, 0))
	done, err := file.Import(t.Context(), c, archive.ImportOptions{Together: 4096})
	if err != nil || done.Queues != n {
		t.Fatalf("%+v, %v", done, err)
	}
	if c.asked != 1 || c.lists > 15 {
		t.Errorf("%d queues were asked about and %d pages listed", c.asked, c.lists)
	}
}

// single counts the queues that are imported one by one.
type single struct {
	archive.Target
	mu     sync.Mutex
	opened []string
}

func (s *single) OpenImport(ctx context.Context, q move.Queue, mark string) (bool, error) {
	s.mu.Lock()
	s.opened = append(s.opened, q.Spec.Name)
	s.mu.Unlock()
	return s.Target.OpenImport(ctx, q, mark)
}

// Only queues with jobs, and queues that exist, are imported one by one. All others are imported together, and after an
// interruption not again.
func TestImportOneByOne(t *testing.T) {
	source, clock := newStore(t)
	for _, name := range []string{"a", "a.child", "b", "c", "d", "d.child"} {
		put(t, source, name, "14/s")
	}
	add(t, source, job("a", 1), job("d.child", 1))
	clock.Advance(time.Second)
	file, _ := export(t, source, archive.ExportOptions{})
	for name, to := range map[string]engine{
		"embedded": embedded(t, filepath.Join(t.TempDir(), "new"), clock),
		"redis":    onRedis(t, redistest.New(t, redistest.Options{}).Client(), "ps", 2, clock),
	} {
		put(t, to, "b", "14/s")
		for _, want := range []string{"[a b d.child]", "[a d.child]"} { // the second time, b is imported
			s := &single{Target: to}
			done, err := verify(t, file).Import(t.Context(), s, archive.ImportOptions{})
			if err != nil || done.Queues != 6 {
				t.Fatalf("%s: %+v, %v", name, done, err)
			}
			slices.Sort(s.opened)
			if got := fmt.Sprint(s.opened); got != want {
				t.Errorf("%s: opened %v, want %v", name, got, want)
			}
		}
		again, _ := export(t, to, archive.ExportOptions{})
		same(t, name, essence(again), essence(file))
		if g, err := to.Get(t.Context(), "d"); err != nil || g.Group.Children != 1 || g.Group.Waiting != 1 {
			t.Errorf("%s: %+v, %v", name, g.Group, err)
		}
	}
}
