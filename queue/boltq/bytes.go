package boltq

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// bytes is what a job takes of max_bytes.
func (j *job) bytes() int64 { return queue.SizeOf(j.id, int(j.size)) }

func (it *appendItem) bytes() int64 { return queue.SizeOf(it.job.ID, len(it.record)) }

// byteLimit is the queue's max_bytes, or the share of the store that it has without one.
func (e *Engine) byteLimit(q *queueState) int64 {
	if q.spec.MaxBytes > 0 {
		return int64(q.spec.MaxBytes)
	}
	if s := e.space(); s.Limit > 0 {
		return max(1, s.Limit/queue.StoreShare)
	}
	return queue.AnyBytes
}

// tooLarge decides about a job that takes more than may be of its queue, or of its lane.
func (it *appendItem) tooLarge(most int64, lane bool) bool {
	if most == 0 || it.bytes() <= most {
		return false
	}
	it.answer.Outcome, it.answer.Err = queue.Invalid, queue.NeverFits(it.bytes(), most, lane)
	return true
}

// fitsReadmission reports whether so many bytes may come back from the overflow.
func (q *queueState) fitsReadmission(needs, most int64) bool {
	return q.bytes+needs <= most && (q.overflow.readmitted == 0 || q.overflow.readmittedBytes+needs <= q.spec.MarkBytes(most))
}

// keptForReadmission reports whether the places, or the bytes, up to the mark are all that is left of a queue with a backlog:
// they are for what comes back. So are the bytes for which the first of those waits.
func (q *queueState) keptForReadmission(needs, most int64) bool {
	if q.size()-q.overflow.readmitted >= max(1, q.spec.Capacity-q.spec.Mark()) {
		return true
	}
	others := q.bytes - q.overflow.readmittedBytes
	return (others > 0 || q.overflow.headNeeds > 0) && others+needs > most-max(q.spec.MarkBytes(most), q.overflow.headNeeds)
}

// answerFull answers for a job that finds no room in its queue.
func (it *appendItem) answerFull(q *queueState, most int64, now leaky.Instant) {
	over := q.bytes + it.bytes() - most
	it.answer.RetryAfter = q.retryAfter(queue.Leaving(over, q.bytes, q.size()), now)
	if over > 0 {
		it.answer.Bytes = queue.ByteBound{Held: q.bytes, Max: most, Needs: it.bytes()}
	}
}

func tooLargeReason(needs, most int64) string {
	return fmt.Sprintf("takes %d bytes, more than the max_bytes %d of its queue", needs, most)
}

// Space implements queue.Specs.
func (e *Engine) Space(ctx context.Context) (queue.Space, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.space(), e.readable(ctx)
}

// space is how full the store is: the file of MaxBytes, or its disk, whoever uses that.
func (e *Engine) space() queue.Space {
	used := e.used.Load()
	if most := e.opts.MaxBytes; most > 0 {
		return queue.Space{Used: used, Stop: most - min(reservedBytes, most/8), Limit: most}
	}
	size, left := e.disk.look(e.path)
	if size == 0 {
		return queue.Space{Used: used}
	}
	return queue.Space{Used: size - left - (e.fileSize.Load() - used), Stop: size - min(reservedDiskBytes, size/20), Limit: size}
}

// reservedDiskBytes is how much of the disk appends leave: what makes room needs some, and so do others.
const reservedDiskBytes = 256 << 20

// measureFile notes how much of the file is used.
func (e *Engine) measureFile(tx *bbolt.Tx) {
	size := tx.Size()
	e.fileSize.Store(size)
	e.used.Store(size - int64(e.db.Stats().FreePageN)*int64(e.db.Info().PageSize))
}
