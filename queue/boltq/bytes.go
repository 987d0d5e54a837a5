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

func (n *entry) bytes() int64 { return queue.SizeOf(n.job.ID, len(n.record)) }

// byteLimit is the queue's max_bytes, or the share of the store that it has without one.
func (e *Engine) byteLimit(l *line) int64 {
	if l.spec.MaxBytes > 0 {
		return int64(l.spec.MaxBytes)
	}
	if s := e.space(); s.Limit > 0 {
		return max(1, s.Limit/queue.StoreShare)
	}
	return queue.AnyBytes
}

// tooLarge decides about a job that takes more than may be of its queue, or of its lane.
func (n *entry) tooLarge(most int64, lane bool) bool {
	if most == 0 || n.bytes() <= most {
		return false
	}
	n.answer.Outcome, n.answer.Err = queue.Invalid, queue.NeverFits(n.bytes(), most, lane)
	return true
}

// fitsBack reports whether so many bytes may come back from the overflow.
func (l *line) fitsBack(needs, most int64) bool {
	return l.bytes+needs <= most && (l.aside.back == 0 || l.aside.backBytes+needs <= l.spec.MarkBytes(most))
}

// keptForOthers reports whether the places, or the bytes, up to the mark are all that is left of a queue with a backlog:
// they are for what comes back. So are the bytes for which the first of those waits.
func (l *line) keptForOthers(needs, most int64) bool {
	if l.size()-l.aside.back >= max(1, l.spec.Capacity-l.spec.Mark()) {
		return true
	}
	others := l.bytes - l.aside.backBytes
	return (others > 0 || l.aside.headNeeds > 0) && others+needs > most-max(l.spec.MarkBytes(most), l.aside.headNeeds)
}

// refuse answers for a job that finds no room in its queue.
func (n *entry) refuse(l *line, most int64, now leaky.Instant) {
	over := l.bytes + n.bytes() - most
	n.answer.RetryAfter = l.promise(queue.Leaving(over, l.bytes, l.size()), now)
	if over > 0 {
		n.answer.Bytes = queue.ByteBound{Held: l.bytes, Max: most, Needs: n.bytes()}
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
		return queue.Space{Used: used, Stop: most - min(keepFree, most/8), Limit: most}
	}
	size, left := e.disk.look(e.path)
	if size == 0 {
		return queue.Space{Used: used}
	}
	return queue.Space{Used: size - left - (e.fileSize.Load() - used), Stop: size - min(keepFreeOfDisk, size/20), Limit: size}
}

// keepFreeOfDisk is how much of the disk appends leave: what makes room needs some, and so do others.
const keepFreeOfDisk = 256 << 20

// measure notes how much of the file is used.
func (e *Engine) measure(tx *bbolt.Tx) {
	size := tx.Size()
	e.fileSize.Store(size)
	e.used.Store(size - int64(e.db.Stats().FreePageN)*int64(e.db.Info().PageSize))
}
