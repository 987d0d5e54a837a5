package redisq

import (
	"context"
	"encoding/binary"

	"github.com/penstock/penstock/queue"
)

// ExportQueue implements queue.Mover.
func (e *Engine) ExportQueue(ctx context.Context, name string) (queue.MovedQueue, error) {
	info, err := e.Get(ctx, name)
	if err != nil {
		return queue.MovedQueue{}, err
	}
	v, err := e.ask(ctx, exportScript, e.Partition(name), e.instant(), name, 0)
	if err != nil {
		return queue.MovedQueue{}, err
	}
	if v == int64(0) {
		return queue.MovedQueue{}, unknown(name)
	}
	r := list(v)
	return queue.MovedQueue{
		Spec: info.Spec, Revision: info.Revision, Pause: info.Pause, Bucket: queue.MovedBucket(&info),
		Counts: info.Counters, Held: info.Size(), Deferred: info.Deferred, Dead: info.Dead, Errors: info.Errors,
		Limits: info.Limits,
		Turn:   r.int(), MaxCost: r.int(), Import: r.text(), Open: r.int() == 1,
	}, r.err
}

// ExportJobs implements queue.Mover.
func (e *Engine) ExportJobs(ctx context.Context, r queue.ExportRequest) (queue.Exported, error) {
	if queue.ValidateName(r.Queue) != nil {
		return queue.Exported{}, unknown(r.Queue)
	}
	if err := r.Validate(); err != nil {
		return queue.Exported{}, err
	}
	c, err := r.Cursor()
	if err != nil {
		return queue.Exported{}, err
	}
	at, member, lane, _, err := placeOf(c, r.State)
	if err != nil {
		return queue.Exported{}, err
	}
	v, err := e.ask(ctx, exportScript, e.Partition(r.Queue), e.instant(), r.Queue, int(r.State), queue.MaxPage,
		queue.MaxMovePage, at, member, lane)
	if err != nil {
		return queue.Exported{}, err
	}
	if v == int64(0) {
		return queue.Exported{}, unknown(r.Queue)
	}
	var page queue.Exported
	answer := list(v)
	for rows := answer.list(); rows.more(); {
		page.Jobs = append(page.Jobs, readExported(rows))
		if rows.err != nil {
			return queue.Exported{}, rows.err
		}
	}
	if answer.more() {
		page.Next = r.NextPage(queue.Cursor{At: answer.number(), ID: answer.text(), Lane: answer.text()})
	}
	return page, answer.err
}

func readExported(r *reply) queue.MovedJob {
	j := queue.MovedJob{ID: r.text(), State: queue.State(r.int()), Turn: r.number(), AppendedAt: micros(r.int())}
	j.At, j.Attempts, j.Reason = micros(r.number()), int(r.int()), r.text()
	marks := r.int()
	j.Back, j.HoldsLane, j.Lease = marks&cameBack != 0, marks&holdsLane != 0, queue.ExportedLease(r.int())
	if past := r.text(); past != "" {
		j.Timeline = []byte(past)
	}
	record := []byte(r.text())
	if len(record) >= queue.RecordCost+2 {
		j.Fingerprint, j.Cost = binary.BigEndian.Uint64(record),
			int64(binary.BigEndian.Uint16(record[queue.RecordCost:]))
	}
	if len(record) > queue.RecordCost+2 {
		j.Record = record
	}
	return j
}

// The marks of a job that is moved, as export.lua and importjobs.lua have them.
const (
	cameBack  = 1
	holdsLane = 2
)
