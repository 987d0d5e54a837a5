package archive_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/queuetest"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// engine is what both engines are.
type engine interface {
	queue.Engine
	move.Mover
}

func embedded(t testing.TB, path string, clock *queuetest.Clock) *boltq.Engine {
	t.Helper()
	e, err := boltq.Open(t.Context(), path, boltq.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func onRedis(
	t testing.TB, client redis.UniversalClient, prefix string, partitions int, clock *queuetest.Clock,
) *redisq.Engine {
	t.Helper()
	e, err := redisq.OpenClient(t.Context(), client, redisq.Options{
		Init: true, Partitions: partitions, Prefix: prefix, Patience: redistest.Patience, Now: clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func newStore(t testing.TB) (engine, *queuetest.Clock) {
	clock := queuetest.NewClock()
	return embedded(t, filepath.Join(t.TempDir(), "store"), clock), clock
}

func export(t testing.TB, s archive.Store, o archive.ExportOptions) ([]byte, archive.Exported) {
	t.Helper()
	var file bytes.Buffer
	n, err := archive.Export(context.Background(), s, &file, o)
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), n
}

func verify(t testing.TB, file []byte) *archive.File {
	t.Helper()
	f, err := archive.Verify(t.Context(), bytes.NewReader(file), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func importInto(t testing.TB, s archive.Target, file []byte) archive.Imported {
	t.Helper()
	n, err := verify(t, file).Import(t.Context(), s, archive.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func put(t testing.TB, e queue.Engine, name, rate string, change ...func(*queue.Spec)) {
	t.Helper()
	r, err := leaky.ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	s := queue.Spec{Name: name, Rate: r, Capacity: 100_000, Retry: queue.Retry{MaxAttempts: 3}}
	for _, c := range change {
		c(&s)
	}
	if _, err := e.Put(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
}

func putRule(t testing.TB, e queue.Engine, name string, limit int64, change ...func(*rules.Rule)) {
	t.Helper()
	r := rules.Rule{
		Name: name, Algorithm: leaky.AlgorithmFixedWindow,
		Bound: rules.Bound{Limit: limit, Period: unit.Duration(time.Hour)},
	}
	for _, c := range change {
		c(&r)
	}
	if _, err := e.PutRule(t.Context(), r, 0); err != nil {
		t.Fatal(err)
	}
}

func job(name string, n int) queue.Job {
	id := fmt.Sprintf("j%06d", n)
	return queue.Job{Queue: name, ID: id, Payload: fmt.Appendf(nil, `{"n": %d.0, "to": "\u00e9<&>"}`, n)}
}

func add(t testing.TB, e queue.Engine, jobs ...queue.Job) {
	t.Helper()
	for len(jobs) > 0 {
		some := jobs[:min(len(jobs), 500)]
		jobs = jobs[len(some):]
		out, err := e.Append(t.Context(), some)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range out {
			if a.Outcome != queue.Accepted {
				t.Fatalf("append %s: %v, %v", a.ID, a.Outcome, a.Err)
			}
		}
	}
}

// drainer takes jobs out.
type drainer struct {
	testing.TB
	e      queue.Engine
	clock  *queuetest.Clock
	number uint64
}

// reserve asks every partition once.
func (d *drainer) reserve(most int) (jobs []queue.Reservation, next time.Duration) {
	d.Helper()
	d.number++
	next = time.Hour
	for p := range d.e.Partitions() {
		r, err := d.e.Reserve(d.Context(), queue.ReserveRequest{
			Partition: p, Client: queue.Client{ID: "d", Name: "drainer"}, Number: d.number, Max: most,
		})
		if err != nil {
			d.Fatal(err)
		}
		jobs, next = append(jobs, r.Jobs...), min(next, r.Next)
	}
	return jobs, next
}

func (d *drainer) settle(v queue.Verdict, after time.Duration, reason string, jobs ...queue.Reservation) {
	d.Helper()
	var list []queue.Settlement
	for _, j := range jobs {
		s := settlement(v, j)
		s.Reason = reason
		if v == queue.Fail { // of Deliver it would stop the queue, which is not carried
			s.After = after
		}
		list = append(list, s)
	}
	d.settleAll(list)
}

func settlement(v queue.Verdict, j queue.Reservation) queue.Settlement {
	return queue.Settlement{Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: v}
}

func (d *drainer) settleAll(list []queue.Settlement) {
	d.Helper()
	out, err := d.e.Settle(d.Context(), list)
	if err != nil {
		d.Fatal(err)
	}
	for _, s := range out {
		if s.Stale || s.Err != nil {
			d.Fatalf("settle: %+v", s)
		}
	}
}

// all delivers everything, and returns by queue what left, with its payload, in that order.
func (d *drainer) all() map[string][]string {
	d.Helper()
	out := map[string][]string{}
	for range 1_000_000 {
		jobs, next := d.reserve(queue.MaxReserve)
		for _, j := range jobs {
			out[j.Queue] = append(out[j.Queue], fmt.Sprintf("%s attempt %d lane %s %x", j.ID, j.Attempt, j.Lane, j.Payload))
		}
		if len(jobs) > 0 {
			d.settle(queue.Deliver, 0, "", jobs...)
			continue
		}
		if t, err := d.e.Totals(d.Context()); err != nil || t.Waiting+t.Scheduled+t.Leased == 0 {
			return out
		}
		d.clock.Advance(max(next, time.Millisecond))
	}
	d.Fatal("it is never empty")
	return nil
}

// balanced checks that the books of every queue add up.
func balanced(t testing.TB, e queue.Engine) {
	t.Helper()
	all, err := e.List(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		c := &i.Counters
		if c.Balance() != i.Size() {
			t.Errorf("%s holds %d jobs, by its counters %d: %+v", i.Spec.Name, i.Size(), c.Balance(), *c)
		}
	}
}

func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not say %q", err, part)
		}
	}
}

type ctx = context.Context

// sortedValues is all values, in order of the keys.
func sortedValues(by map[string][]string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[k]...)
	}
	return out
}
