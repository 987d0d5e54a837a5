package boltq

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/readmit"
)

// Tables of the file, as queue/machine names them.
var (
	jobsTable     = []byte("jobs")
	leasesTable   = []byte("leases")
	endedTable    = []byte("ended")
	deferredTable = []byte("deferred")
	talliesTable  = []byte("tallies")
)

func key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func deferring(capacity int64) func(*queue.Spec) {
	return func(s *queue.Spec) { s.Capacity, s.Overflow = capacity, queue.Defer }
}

// offer offers jobs that must be set aside.
func (b *bench) offer(name string, from, n int) []queue.Appended {
	b.Helper()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = jobOf(name, from+i)
	}
	answers, err := b.Offer(context.Background(), jobs)
	if err != nil {
		b.Fatal(err)
	}
	for i, a := range answers {
		if a.Outcome != queue.SetAside || a.ID != jobs[i].ID || a.State != queue.Deferred || a.Ticket == "" {
			b.Fatalf("offer %s: %+v", a.ID, a)
		}
	}
	return answers
}

// stored is what a caller stores of a job that was set aside.
func stored(name string, n int, order int64, a queue.Appended) queue.Readmission {
	return queue.Readmission{Job: jobOf(name, n), Order: order, Ticket: a.Ticket, At: a.At}
}

func (b *bench) readmit(name string, jobs ...queue.Readmission) queue.Readmitted {
	b.Helper()
	return b.readmitAs(queue.ReadmitRequest{Queue: name, Jobs: jobs})
}

func (b *bench) readmitAs(r queue.ReadmitRequest) queue.Readmitted {
	b.Helper()
	r.Holder, r.Overflow = "h", "nats"
	m, err := b.Readmit(context.Background(), r)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func (b *bench) outcomes(m queue.Readmitted, want ...readmit.Outcome) {
	b.Helper()
	if !slices.Equal(m.Outcomes, want) {
		b.Fatalf("%v, want %v", m.Outcomes, want)
	}
}

func (b *bench) state(name string, n int) queue.State {
	b.Helper()
	j, err := b.Job(context.Background(), name, jobOf(name, n).ID)
	if err != nil && !errors.Is(err, queue.ErrUnknownJob) {
		b.Fatal(err)
	}
	return j.State
}

func (b *bench) appendAll(jobs ...queue.Job) {
	b.Helper()
	answers, err := b.Append(context.Background(), jobs)
	for _, a := range answers {
		if err != nil || a.Outcome != queue.Accepted {
			b.Fatalf("%+v, %v", a, err)
		}
	}
}

// expiring is a job that expires so long after noon.
func expiring(name string, n int, after time.Duration) queue.Job {
	j := jobOf(name, n)
	j.ExpiresAt = noon.Add(after).Time()
	return j
}

// older is a queue with a backlog of the jobs 1 and 2, which are recorded in the older
// generation and on no overflow, so that they can be given up now.
func older(t *testing.T, o Options) (b *bench, aside []queue.Appended) {
	t.Helper()
	b = start(t, o)
	b.put("q", "unlimited", deferring(2))
	b.append("q", 90, 2)
	aside = b.offer("q", 1, 2)
	b.settleAll(queue.Deliver, b.reserve(2))
	if m := b.readmitAs(queue.ReadmitRequest{Queue: "q", Empty: true}); m.Missing != 0 {
		t.Fatalf("%+v", m)
	}
	b.advance(queue.OrphanAfter + time.Microsecond)
	return b, aside
}

// records counts what is in a table.
func (b *bench) records(table []byte) (n int) {
	b.Helper()
	err := b.db.(boltFile).View(func(tx *bbolt.Tx) error {
		return tx.Bucket(table).ForEach(func(_, _ []byte) error { n++; return nil })
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// crash leaves the engine as kill -9 would: what is on file is all there is.
func (b *bench) crash(c *copies) {
	b.Helper()
	data, err := os.ReadFile(c.path(c.n.Load()))
	if err != nil {
		b.Fatal(err)
	}
	c.of = nil // what Close commits is not for the dead
	if err := b.Close(); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "store")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	b.open(path)
	c.of = b.Engine
}

// peek is what taking one would answer.
func (b *bench) peek(rule, key string) leaky.Decision {
	b.Helper()
	return b.take(rule, queue.Take{Op: queue.TakePeek, Key: key}).Decision
}
