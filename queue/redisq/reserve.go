package redisq

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// rowFields is the number of values for each job in the answer of reserve.lua.
const rowFields = 5

// Reserve implements queue.Outflow. It is called once; a drainer whose reply was lost asks again with the same number.
func (e *Engine) Reserve(ctx context.Context, r queue.ReserveRequest) (queue.Reserved, error) {
	var out queue.Reserved
	partition := r.Partition
	if r.Queue != "" {
		if names.Validate(r.Queue) != nil {
			return out, unknown(r.Queue)
		}
		partition = e.Partition(r.Queue)
	} else if r.Partition < 0 || r.Partition >= len(e.keys) {
		return out, fmt.Errorf("partition %d: must be from 0 to %d", r.Partition, len(e.keys)-1)
	}
	if err := r.Check(); err != nil {
		return out, err
	}
	v, err := e.once(ctx, reserveScript, partition, e.reserveArgs(&r)...)
	if err != nil {
		return out, err
	}
	l := list(v)
	switch code := l.duration(); code {
	case -1 * time.Microsecond:
		return out, unknown(r.Queue)
	case -2 * time.Microsecond:
		return out, queue.NotPulled(r.Queue)
	default:
		out.Next = code
	}
	err = e.readReserved(l, partition, &out)
	return out, err
}

// reserveArgs returns the arguments of reserve.lua.
func (e *Engine) reserveArgs(r *queue.ReserveRequest) []any {
	latest := any("")
	if !r.Latest.IsZero() {
		latest = r.Latest.UnixMicro()
	}
	args := []any{
		e.instant(), r.Client.ID, r.Client.Name, r.Client.Version,
		strconv.FormatUint(r.Number, 10), r.Max, queue.MaxReserveBytes, r.Client.Shown(), r.Queue,
		r.Lead.Microseconds(), r.Uncertainty.Microseconds(), r.ClockID(), latest,
	}
	if r.Queue == "" {
		for name, share := range r.Shares {
			args = append(args, name, share)
		}
	}
	return args
}

// readReserved reads the answer of reserve.lua behind its first value.
func (e *Engine) readReserved(l *reply, partition int, out *queue.Reserved) error {
	out.Backup, out.Garbage = l.duration(), l.int() > 0
	for s := l.list(); s.more(); {
		out.Expired = append(out.Expired, s.text())
	}
	for s := l.list(); s.more(); {
		if out.Lost == nil {
			out.Lost = map[string]int64{}
		}
		name := s.text()
		out.Lost[name] += s.int()
	}
	for s := l.list(); s.more(); {
		if err := e.readGranted(s.list(), out); err != nil {
			return err
		}
	}
	for s := l.list(); s.more(); {
		number, text := s.text(), s.text()
		e.log.Error("queue cannot be drained: one of its keys is not what penstock wrote", "key",
			e.keys[partition]+"q"+number, "error", text)
	}
	out.Now = micros(l.int())
	for s := l.list(); s.more(); {
		out.Short = append(out.Short, s.text())
	}
	slices.Sort(out.Short)
	for i := range out.Jobs {
		out.Jobs[i].Age = out.Now.Sub(out.Jobs[i].AppendedAt)
	}
	return l.err
}

// readGranted reads the grants of one queue.
func (e *Engine) readGranted(group *reply, out *queue.Reserved) error {
	name, revision, lease, epoch := group.text(), group.int(), group.duration(), group.text()
	rows := group.list()
	out.Jobs = slices.Grow(out.Jobs, len(rows.v)/rowFields)
	for rows.more() {
		out.Jobs = append(out.Jobs, queue.Reservation{Revision: revision, Lease: lease})
		j := &out.Jobs[len(out.Jobs)-1]
		j.Queue, j.ID, j.Fence, j.Attempt, j.In = name, rows.text(), newFence(epoch, rows.int()), int(rows.int()),
			rows.duration()
		job := rows.text()
		if rows.err != nil {
			return rows.err
		}
		if err := readJob(job, j); err != nil {
			// Its lease runs out, and in time it becomes dead, with its record kept.
			e.log.Error("job record cannot be read", "queue", name, "id", j.ID, "error", err)
			out.Jobs = out.Jobs[:len(out.Jobs)-1]
		}
	}
	return nil
}

// A job's string: 'L' or 'R', 7 bytes of the instant it was appended, 8 of stamp, the record.
const jobHeader = 8 + stampBytes

func readJob(s string, j *queue.Reservation) error {
	if len(s) < jobHeader || s[0] != 'L' && s[0] != 'R' {
		return fmt.Errorf("%w: not a job", queue.ErrCorrupt)
	}
	var at [8]byte
	copy(at[1:], s[1:8])
	j.AppendedAt = time.UnixMicro(int64(binary.BigEndian.Uint64(at[:])))
	return jobrecord.Unpack([]byte(s[jobHeader:]), &j.Job)
}
