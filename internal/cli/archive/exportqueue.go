package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// sections is the order in which jobs are exported. While the store is in use, a job may move to a section that was
// already exported, for example from leased to scheduled. So liveSections exports those sections once more. A job that
// is seen twice is in the file twice, and an import skips the second.
var (
	sections     = []queue.State{queue.Dead, queue.Held, queue.Scheduled, queue.Waiting, queue.Leased, queue.Delivered}
	liveSections = []queue.State{
		queue.Dead, queue.Held, queue.Scheduled, queue.Waiting, queue.Leased, queue.Scheduled,
		queue.Held, queue.Dead, queue.Delivered,
	}
)

// queue writes a queue with its jobs.
func (e *exporter) queue(ctx context.Context, name string, seen *xxhash.Digest) error {
	q, err := e.store.ExportQueue(ctx, name)
	if errors.Is(err, queue.ErrUnknownQueue) && e.opts.Live {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	if q.Open {
		return &Refused{fmt.Sprintf("import %s into %s is not finished: repeat it or delete the queue", q.Import,
			name)}
	}
	trace(seen, &q)
	if err := e.missingRules(ctx, &q.Spec); err != nil {
		return err
	}
	head, err := queueToLine(&q)
	if err != nil {
		return err
	}
	if err := e.write(&line{Queue: head}); err != nil {
		return err
	}
	end := &endLine{Queue: name, Held: q.Held, Counts: q.Counts, Errors: q.Errors}
	if e.opts.WithoutDeferred {
		end.Counts.Missing += max(0, q.Counts.Balance()-q.Held)
	}
	for i := range end.Errors {
		end.Errors[i].At, end.Errors[i].Reason = end.Errors[i].At.UTC(), valid(end.Errors[i].Reason)
	}
	order := sections
	if e.opts.Live {
		order = liveSections
	}
	for _, s := range order {
		if err := e.pages(ctx, name, s, func(m *move.Job) error { return e.job(m, end) }); err != nil {
			if errors.Is(err, queue.ErrUnknownQueue) && e.opts.Live {
				break
			}
			return err
		}
	}
	e.done.Queues++
	e.done.Jobs.add(end.Jobs)
	return e.write(&line{End: end})
}

func (e *exporter) job(m *move.Job, end *endLine) error {
	text, err := jobText(m, end.Queue)
	if err != nil {
		e.done.Broken++
		if e.opts.Broken != nil {
			e.opts.Broken(end.Queue, m.ID)
		}
		return nil
	}
	if m.Lease == move.LeaseOver {
		end.Counts.Expired++
	}
	if m.Lease != move.NoLease && m.State == queue.Dead {
		end.Counts.Died++
		end.Held--
	}
	*end.Jobs.of(m.State)++
	if n := e.done.Jobs.Sum() + end.Jobs.Sum(); e.opts.Progress != nil && n%100 == 0 {
		e.opts.Progress(n)
	}
	return e.writeText(text)
}

// jobText returns the line of a job. A job that an import would refuse is an error, since it would spoil the whole
// file.
func jobText(m *move.Job, name string) ([]byte, error) {
	if m.State == queue.StateNone {
		return nil, queue.ErrCorrupt
	}
	l, err := jobToLine(m)
	if err != nil {
		return nil, err
	}
	back, err := l.job(name)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(back.Record, m.Record) || back.Fingerprint != m.Fingerprint {
		return nil, fmt.Errorf("%w: penstock did not write this record", queue.ErrCorrupt)
	}
	return (&line{Job: l}).encode()
}

// trace hashes everything about a queue that changes only while the store is used.
func trace(d *xxhash.Digest, q *move.Queue) {
	_, _ = fmt.Fprintf(d, "%s %d %v %d %d %+v\n", q.Spec.Name, q.Revision, q.Pause.On(), q.Turn, q.Held, q.Counts)
}

func traceRule(d *xxhash.Digest, i *rules.Info) {
	_, _ = fmt.Fprintf(d, "%s %d\n", i.Name, i.Revision)
}
