package boltq

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
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

// expiring returns a job that expires that long after noon.
func expiring(name string, n int, after time.Duration) queue.Job {
	j := enginetest.Job(name, n)
	j.ExpiresAt = noon.Add(after).Time()
	return j
}

// orphans returns a queue with a backlog that can be given up now.
func orphans(t *testing.T, o Options) (b *bench, aside []queue.Appended) {
	t.Helper()
	b = start(t, o)
	return b, b.OrphanedBacklog()
}

// records returns the number of records in a table.
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

// crash leaves the engine as kill -9 would: only the file remains.
func (b *bench) crash(c *copies) {
	b.Helper()
	data, err := os.ReadFile(c.path(c.n.Load()))
	if err != nil {
		b.Fatal(err)
	}
	c.of = nil // the dead process does not see what Close commits
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
