package archive_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/queuetest"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// putLearned makes a queue that has learned what its jobs cost.
func putLearned(t *testing.T, e queue.Engine, name string) {
	t.Helper()
	q := move.Queue{Spec: queue.Spec{
		Name: name, Limits: []queue.Limit{{Unit: "tokens", Rate: leaky.PerSecond(100), Burst: 1000}},
		Estimate: map[string]queue.Estimate{"tokens": {Default: 5, From: "/max_tokens", Learn: "p95"}},
	}, MaxCost: 1}
	q.Spec.Normalize()
	l := queue.LearnedCosts{Unit: "tokens"}
	for cost := range int64(600) {
		l.Costs = l.Costs.Add(cost)
	}
	q.Learned = []queue.LearnedCosts{l}
	done, err := e.(move.Mover).ImportQueues(t.Context(), []move.Queue{q}, "learned")
	if err != nil || !done[0] {
		t.Fatal(done, err)
	}
}

// busyStore fills a store with about n jobs of all states: a plain queue, one with lanes, priorities and schedules, one
// that is ordered, one that is paused, one that holds nothing, some that name rules.
func busyStore(t *testing.T, e queue.Engine, clock *queuetest.Clock, n int) {
	t.Helper()
	put(t, e, "plain", "500/s", func(s *queue.Spec) { s.Retention.For = unit.Duration(time.Hour) })
	put(t, e, "lanes", "1000/s", func(s *queue.Spec) {
		s.Lanes.LaneRule = queue.LaneRule{Rate: leaky.PerSecond(300), MaxInFlight: 5}
		s.Deliver = []byte(`{"http": {"url": "https://example.com/?key=${secret:KEY}", "big": 12345678901234567890}}`)
	})
	put(t, e, "ordered", "100/s", func(s *queue.Spec) { s.Ordered = true })
	put(t, e, "paused", "14/s")
	putLearned(t, e, "idle")
	putRule(t, e, "ses.all", 1_000_000_000, func(r *rules.Rule) { r.Action, r.Away = rules.Defer, rules.AwayShare })
	putRule(t, e, "calls", 5, func(r *rules.Rule) {
		r.Key, r.Overrides = "{lane}", map[string]rules.Bound{"tenant \u00e9 {}": {
			Limit: 7, Period: unit.Duration(time.Minute),
		}}
	})
	put(t, e, "ses", "200/s", func(s *queue.Spec) {
		s.Rules = []string{"ses.all", "calls", "another.groups"}
		s.Limits = []queue.Limit{
			{Quota: queue.Quota{Max: 1_000_000, Per: "d"}, Timezone: "Europe/Berlin"}, {Rate: leaky.PerSecond(400), Burst: 5},
		}
	})
	put(t, e, "ses.otp", "100/s")
	d := &drainer{TB: t, e: e, clock: clock}
	var first []queue.Job
	for i := range n / 10 {
		first = append(first, job("plain", i))
	}
	add(t, e, first...)
	for i := 0; i < n/10; {
		jobs, next := d.reserve(100)
		var list []queue.Settlement
		for _, j := range jobs {
			s := settlement(queue.Deliver, j)
			switch i++; i % 4 {
			case 0:
				s.Verdict, s.Reason = queue.Bury, fmt.Sprintf("550 no such user %d \u2028\n\"", i)
			case 1:
				s.Verdict, s.After, s.Reason = queue.Fail, time.Duration(1+i)*time.Minute, "421 busy"
			}
			list = append(list, s)
		}
		d.settleAll(list)
		clock.Advance(max(next, time.Millisecond))
	}
	var list []queue.Job
	for i := n / 10; i < n; i++ {
		j := job([]string{"plain", "lanes", "lanes", "ordered", "paused", "ses", "ses.otp"}[i%7], i)
		if j.Queue == "lanes" || j.Queue == "ordered" {
			j.Lane, j.Priority, j.Cost = fmt.Sprintf("tenant %d \u00e9", i%37), i%3, int64(1+i%4)
		}
		if j.Queue == "lanes" && i%6 == 0 {
			j.NotBefore = clock.Now().Time().Add(time.Duration(i) * time.Second)
		}
		if i%9 == 0 {
			j.ExpiresAt = clock.Now().Time().Add(300 * 24 * time.Hour)
			j.ContentType, j.Headers = "application/octet-stream", map[string]string{"X-B": "2", "X-A": "1"}
		}
		list = append(list, j)
	}
	add(t, e, list...)
	if err := e.Pause(t.Context(), "paused", queue.Pause{Reason: "over the night"}); err != nil {
		t.Fatal(err)
	}
	jobs, _ := d.reserve(60)
	for i, j := range jobs {
		d.settle([]queue.Verdict{queue.Fail, queue.Release, queue.Deliver}[i%3], time.Hour, "503", j)
	}
	for _, j := range list[len(list)-9:] {
		if _, err := e.Cancel(t.Context(), j.Queue, j.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// essence is a file without what may differ: where and when it was made, revisions and buckets, which only grow.
func essence(file []byte) string {
	lines := strings.Split(string(file), "\n")
	text := strings.Join(lines[1:len(lines)-2], "\n")
	return regexp.MustCompile(`"revision":\d+,|"bucket":\{[^}]*\},|"limits":\[\{[^]]*\],"turn`).ReplaceAllString(text, "")
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s: line %d of %d is\n%s\nand was\n%s", what, i, len(a), a[i], b[i])
		}
	}
	if len(a) != len(b) {
		t.Fatalf("%s: %d lines, were %d", what, len(a), len(b))
	}
}

// From a file to Redis, to Redis with other partitions, and back to a file: nothing is lost on the way, and it leaves
// in the same order.
func TestThereAndBack(t *testing.T) {
	const n = 8_000 // two pages of every queue that is used, and more
	clock := queuetest.NewClock()
	dir := t.TempDir()
	source := embedded(t, filepath.Join(dir, "source"), clock)
	busyStore(t, source, clock, n)
	balanced(t, source)
	clock.Advance(20 * time.Second) // the drainer is forgotten
	if err := source.Close(); err != nil {
		t.Fatal(err)
	}
	source = embedded(t, filepath.Join(dir, "source"), clock)
	file, exported := export(t, source, archive.ExportOptions{})
	if j := exported.Jobs; j.Sum() != n || j.Scheduled == 0 || j.Dead == 0 || j.Delivered == 0 || j.Cancelled == 0 {
		t.Fatalf("exported %+v", exported)
	}
	want := essence(file)

	client := redistest.New(t, redistest.Options{}).Client()
	// the source is emptied over hours, of which last must know nothing: its saver reads the clock at any time
	own := queuetest.NewClock()
	own.Set(clock.Now())
	last := embedded(t, filepath.Join(dir, "last"), own)
	for _, s := range []struct {
		name string
		engine
	}{
		{"redis, 16 partitions", onRedis(t, client, "a", 16, clock)},
		{"redis, 4 partitions", onRedis(t, client, "b", 4, clock)},
		{"embedded", last},
	} {
		if got := importInto(t, s, file); got.Placed != n || got.Jobs != exported.Jobs {
			t.Fatalf("%s: imported %+v of %+v", s.name, got, exported)
		}
		balanced(t, s)
		var again archive.Exported
		if file, again = export(t, s, archive.ExportOptions{}); again != exported {
			t.Errorf("%s: exported %+v, want %+v", s.name, again, exported)
		}
		same(t, s.name, essence(file), want)
	}
	sameTotals(t, source, last)

	for _, e := range []queue.Engine{source, last} {
		if err := e.Resume(t.Context(), "paused"); err != nil {
			t.Fatal(err)
		}
	}
	was := (&drainer{TB: t, e: source, clock: clock}).all()
	is := (&drainer{TB: t, e: last, clock: own}).all()
	for name, order := range was {
		same(t, "departures of "+name, strings.Join(lanewise(is[name]), "\n"), strings.Join(lanewise(order), "\n"))
	}
	balanced(t, last)
}

// lanewise is departures lane by lane, those that were tried before apart, because they come back by the clock.
func lanewise(departures []string) (out []string) {
	lane := regexp.MustCompile(`attempt (\d+) lane (.*) [0-9a-f]*$`)
	by := map[string][]string{}
	for _, d := range departures {
		m := lane.FindString(d)
		m = m[:strings.LastIndexByte(m, ' ')]
		by[m] = append(by[m], d)
	}
	return sortedValues(by)
}

func sameTotals(t *testing.T, a, b queue.Engine) {
	t.Helper()
	x, err := a.Totals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.Totals(t.Context())
	if err != nil || x != y {
		t.Errorf("totals %+v, were %+v, %v", y, x, err)
	}
}

// An import that is interrupted at any call can be continued, on both engines.
func TestBrokenOff(t *testing.T) {
	source, clock := newStore(t)
	busyStore(t, source, clock, 1000)
	clock.Advance(time.Minute)
	file, exported := export(t, source, archive.ExportOptions{})
	client := redistest.New(t, redistest.Options{}).Client()
	for name, target := range map[string]engine{
		"redis":    onRedis(t, client, "a", 4, clock),
		"embedded": embedded(t, filepath.Join(t.TempDir(), "s"), clock),
	} {
		var last archive.Imported
		for calls := 0; ; calls++ {
			b := &breaking{engine: target, left: calls}
			n, err := verify(t, file).Import(t.Context(), b, archive.ImportOptions{Together: 1 + 7*(calls%2)})
			if err == nil {
				last = n
				break
			}
			wantError(t, err, "broken off")
		}
		if last.Placed+last.There != exported.Jobs.Sum() || last.There == 0 {
			t.Errorf("%s: at last %+v of %+v", name, last, exported)
		}
		again, _ := export(t, target, archive.ExportOptions{})
		same(t, name, essence(again), essence(file))
		balanced(t, target)
		if n := importInto(t, target, file); n.There != exported.Jobs.Sum() {
			t.Errorf("%s: a finished import was repeated: %+v", name, n)
		}
		again, _ = export(t, target, archive.ExportOptions{})
		same(t, name, essence(again), essence(file))
	}
}

// breaking breaks off after some calls.
type breaking struct {
	engine
	mu   sync.Mutex
	left int
}

func (b *breaking) step() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left < 0 {
		return fmt.Errorf("broken off")
	}
	return nil
}

func (b *breaking) ImportQueues(ctx ctx, queues []move.Queue, mark string) ([]bool, error) {
	if err := b.step(); err != nil {
		return nil, err
	}
	return b.engine.ImportQueues(ctx, queues, mark)
}

func (b *breaking) OpenImport(ctx ctx, q move.Queue, mark string) (bool, error) {
	if err := b.step(); err != nil {
		return false, err
	}
	return b.engine.OpenImport(ctx, q, mark)
}

func (b *breaking) ImportJobs(ctx ctx, name, mark string, jobs []move.Job) ([]move.Outcome, error) {
	if err := b.step(); err != nil {
		return nil, err
	}
	return b.engine.ImportJobs(ctx, name, mark, jobs)
}

func (b *breaking) CloseImport(ctx ctx, q move.Queue, mark string) error {
	if err := b.step(); err != nil {
		return err
	}
	return b.engine.CloseImport(ctx, q, mark)
}

// A live export has all jobs that stay, and jobs that it has twice are imported once.
func TestLive(t *testing.T) {
	source, clock := newStore(t)
	put(t, source, "q", "unlimited")
	var list []queue.Job
	for i := range 1200 {
		list = append(list, job("q", i))
	}
	add(t, source, list...)
	d := &drainer{TB: t, e: source, clock: clock}
	moving := &stirred{engine: source, stir: func() {
		jobs, _ := d.reserve(20)
		d.settle(queue.Fail, 0, "again", jobs[:10]...)
		clock.Advance(time.Millisecond)
	}}
	if _, err := archive.Export(t.Context(), moving, &bytes.Buffer{}, archive.ExportOptions{}); err == nil {
		t.Error("a store that changes was exported as one at rest")
	}
	file, n := export(t, moving, archive.ExportOptions{Live: true})
	target, _ := newStore(t)
	got := importInto(t, target, file)
	i, err := target.Get(t.Context(), "q")
	if err != nil || i.Size()+i.Dead != 1200 || got.Clashes+got.Failed > 0 {
		t.Errorf("exported %+v, imported %+v: it holds %d and %d dead, %v", n, got, i.Size(), i.Dead, err)
	}
	balanced(t, target)
}

// stirred is a store that is used between the pages of its export.
type stirred struct {
	engine
	stir func()
}

func (s *stirred) ExportJobs(ctx ctx, r move.ExportRequest) (move.Exported, error) {
	s.stir()
	return s.engine.ExportJobs(ctx, r)
}
