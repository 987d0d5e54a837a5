package redisq

import (
	"context"
	"encoding/binary"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// ExportQueue implements move.Mover.
func (e *Engine) ExportQueue(ctx context.Context, name string) (move.Queue, error) {
	info, err := e.Get(ctx, name)
	if err != nil {
		return move.Queue{}, err
	}
	v, err := e.ask(ctx, exportScript, e.Partition(name), e.instant(), name, 0)
	if err != nil {
		return move.Queue{}, err
	}
	if v == int64(0) {
		return move.Queue{}, unknown(name)
	}
	r := list(v)
	return move.Queue{
		Spec: info.Spec, Revision: info.Revision, Pause: info.Pause, Bucket: move.Bucket(&info),
		Counts: info.Counters, Held: info.Size(), Deferred: info.Deferred, Dead: info.Dead, Errors: info.Errors,
		Limits: info.Limits, Learned: info.Learned,
		Turn: r.int(), MaxCost: r.int(), Import: r.text(), Open: r.int() == 1,
	}, r.err
}

// ExportJobs implements move.Mover.
func (e *Engine) ExportJobs(ctx context.Context, r move.ExportRequest) (move.Exported, error) {
	if names.Validate(r.Queue) != nil {
		return move.Exported{}, unknown(r.Queue)
	}
	if err := r.Validate(); err != nil {
		return move.Exported{}, err
	}
	c, err := r.Cursor()
	if err != nil {
		return move.Exported{}, err
	}
	at, member, lane, _, err := placeOf(c, r.State)
	if err != nil {
		return move.Exported{}, err
	}
	v, err := e.ask(ctx, exportScript, e.Partition(r.Queue), e.instant(), r.Queue, int(r.State), queue.MaxPage,
		move.MaxPageBytes, at, member, lane)
	if err != nil {
		return move.Exported{}, err
	}
	if v == int64(0) {
		return move.Exported{}, unknown(r.Queue)
	}
	var page move.Exported
	answer := list(v)
	for rows := answer.list(); rows.more(); {
		page.Jobs = append(page.Jobs, readExported(rows))
		if rows.err != nil {
			return move.Exported{}, rows.err
		}
	}
	if answer.more() {
		page.Next = r.NextPage(queue.Cursor{At: answer.number(), ID: answer.text(), Lane: answer.text()})
	}
	return page, answer.err
}

func readExported(r *reply) move.Job {
	j := move.Job{ID: r.text(), State: queue.State(r.int()), Turn: r.number(), AppendedAt: micros(r.int())}
	j.At, j.Attempts, j.Reason = micros(r.number()), int(r.int()), r.text()
	marks := r.int()
	j.Back, j.HoldsLane, j.Lease = marks&cameBack != 0, marks&holdsLane != 0, move.Lease(r.int())
	if past := r.text(); past != "" {
		j.Timeline = []byte(past)
	}
	record := []byte(r.text())
	if len(record) >= jobrecord.CostAt+2 {
		j.Fingerprint, j.Cost = binary.BigEndian.Uint64(record),
			int64(binary.BigEndian.Uint16(record[jobrecord.CostAt:]))
	}
	if len(record) > jobrecord.CostAt+2 {
		j.Record = record
	}
	return j
}

// The marks of an exported job, as export.lua and importjobs.lua have them.
const (
	cameBack  = 1
	holdsLane = 2
)
