package redisq

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// maxNumber is the largest number up to which Lua counts exactly.
const maxNumber = 1 << 53

// Readmit implements queue.Overflow. Repeated after a lost reply it answers Passed for jobs that it had returned.
func (e *Engine) Readmit(ctx context.Context, r queue.ReadmitRequest) (queue.Readmitted, error) {
	if names.Validate(r.Queue) != nil {
		return queue.Readmitted{}, unknown(r.Queue)
	}
	args, err := e.readmitArgs(&r)
	if err != nil {
		return queue.Readmitted{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	v, err := e.repeat(ctx, readmitScript, e.Partition(r.Queue), args...)
	if err != nil {
		return queue.Readmitted{}, err
	}
	if v == int64(0) {
		return queue.Readmitted{}, unknown(r.Queue)
	}
	return readReadmitted(list(v), len(r.Jobs))
}

func (e *Engine) readmitArgs(r *queue.ReadmitRequest) ([]any, error) {
	bad := func(field, value, reason string) error {
		return &invalid.Error{Field: field, Value: value, Reason: reason}
	}
	switch {
	case len(r.Holder) > 64 || names.ValidateID(r.Holder) != nil:
		return nil, bad("holder", clip.Quote(r.Holder, 80), "must be 1 to 64 visible ASCII characters")
	case len(r.Overflow) > 64:
		return nil, bad("overflow", clip.Quote(r.Overflow, 80), "is longer than 64 bytes")
	case len(r.Jobs) > queue.MaxReadmit:
		return nil, bad("jobs", "", fmt.Sprintf("are %d, the limit is %d", len(r.Jobs), queue.MaxReadmit))
	case r.Behind < 0:
		return nil, bad("behind", "", fmt.Sprintf("is %d, must be 0 or more", r.Behind))
	case r.Empty && (len(r.Jobs) > 0 || r.Behind > 0):
		return nil, bad("empty", "", "is said of an overflow that has jobs of this queue")
	}
	args := make([]any, 0, 12+7*len(r.Jobs))
	args = append(args, e.instant(), r.Queue, r.Holder, queue.ReadmitFor.Microseconds(), r.Overflow, r.Behind,
		flag(r.Closed), flag(r.Empty),
		queue.OrphanAfter.Microseconds(), flag(r.Leave), bounded(r.AsOf), len(r.Jobs))
	last := int64(0)
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if j.Order <= last || j.Order >= maxNumber {
			return nil, bad(fmt.Sprintf("jobs[%d].order", i), "",
				fmt.Sprintf("is %d, must be above the one before (%d) and below 2^53", j.Order, last))
		}
		last = j.Order
		ticket := string(j.Ticket)
		if len(ticket) > queue.MaxTicketBytes {
			ticket = "none of ours"
		}
		late, record := packReadmission(j)
		args = append(args, j.ID, j.Order, ticket, bounded(j.At), flag(j.Done), late, record)
	}
	return args, nil
}

// bounded returns an instant in microseconds, within what Lua counts exactly.
func bounded(at time.Time) int64 { return min(max(at.UnixMicro(), 0), maxNumber) }

// packReadmission returns the record of a job, and the reason if it has expired. The record is empty if the job is done
// or is no job.
func packReadmission(r *queue.Readmission) (late string, record []byte) {
	j := r.Job
	j.Normalize()
	if r.Done || j.Validate() != nil {
		return "", nil
	}
	if !j.ExpiresAt.IsZero() {
		late = "expired at " + j.ExpiresAt.UTC().Format(time.RFC3339) + ", while it was deferred"
	}
	return late, jobrecord.Pack(&j)
}

func readReadmitted(r *reply, jobs int) (queue.Readmitted, error) {
	a := queue.Readmitted{Busy: r.duration(), Now: micros(r.int())}
	if a.Busy > 0 {
		return a, r.err
	}
	a.Order, a.Room, a.Batch, a.Deferred, a.Behind, a.Missing = r.int(), r.int(), r.int(), r.int(), r.int(), r.int()
	a.Outcomes = make([]readmit.Outcome, jobs) // NotYet, as are the jobs behind it
	outcomes := r.list()
	for i := 0; outcomes.more(); i++ {
		o := outcomes.int()
		if i >= jobs || o < int64(readmit.NotYet) || o > int64(readmit.TooLarge) {
			return a, fmt.Errorf("%w: a script answered with outcome %d of job %d", queue.ErrCorrupt, o, i)
		}
		a.Outcomes[i] = readmit.Outcome(o)
	}
	for _, err := range []error{outcomes.err, r.err} {
		if err != nil {
			return a, err
		}
	}
	return a, nil
}
