package machine

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/queue"
)

// CheckJobs reads every job that a store keeps, which Load does not, and compares it with its fingerprint. It returns
// how many jobs there are. Errors: queue.ErrCorrupt, ctx's.
func CheckJobs(ctx context.Context, tx Transaction) (n int64, err error) {
	err = forEach(tx.Table(jobsTable), func(k, v []byte) error {
		if n++; n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		h, record, err := decodeJob(v)
		if err != nil {
			return fmt.Errorf("table %s, %x: %w", jobsTable, k, err)
		}
		var j queue.Job
		if err = jobrecord.Unpack(record, &j); err != nil {
			return fmt.Errorf("job %q: %w", h.id, err)
		}
		if j.Fingerprint() != binary.BigEndian.Uint64(record[jobrecord.FingerprintAt:]) {
			return fmt.Errorf("%w: job %q does not have the fingerprint of its payload", queue.ErrCorrupt, h.id)
		}
		return nil
	})
	return n, err
}
