package redisq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/names"
)

// OpenImport implements move.Mover.
func (e *Engine) OpenImport(ctx context.Context, q move.Queue, mark string) (closed bool, err error) {
	// A queue that is there already is checked below.
	if _, err := e.Put(ctx, q.Spec, 0); err != nil && !errors.Is(err, queue.ErrRevision) {
		return false, err
	}
	text, err := queue.EncodeSpec(q.Spec)
	if err != nil {
		return false, err
	}
	name := q.Spec.Name
	v, err := e.repeat(ctx, openImportScript, e.Partition(name), e.instant(), name, text, mark, q.Turn, q.MaxCost,
		move.PauseReason)
	if err != nil {
		return false, err
	}
	r := list(v)
	switch code, other := r.int(), r.text(); code {
	case 0:
		return false, unknown(name)
	case 2:
		return true, r.err
	case 3:
		return false, fmt.Errorf("%s: %w: it holds jobs", name, move.ErrImport)
	case 4:
		return false, fmt.Errorf("%s: %w: it is there with other settings", name, move.ErrImport)
	case 5:
		return false, fmt.Errorf("%s: %w: import %s into it is not finished", name, move.ErrImport,
			clip.Quote(other, 80))
	}
	return false, r.err
}

// ImportJobs implements move.Mover.
func (e *Engine) ImportJobs(ctx context.Context, name, mark string, jobs []move.Job) ([]move.Outcome,
	error,
) {
	if names.Validate(name) != nil {
		return nil, unknown(name)
	}
	if err := move.Validate(jobs); err != nil {
		return nil, err
	}
	args := append(make([]any, 0, 4+10*len(jobs)), e.instant(), name, mark, len(jobs))
	for i := range jobs {
		args = appendMoved(args, &jobs[i])
	}
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	v, err := e.repeat(ctx, importJobsScript, e.Partition(name), args...)
	if err != nil {
		return nil, err
	}
	switch v {
	case int64(0):
		return nil, unknown(name)
	case int64(1):
		return nil, fmt.Errorf("%s: %w: it is not open for it", name, move.ErrImport)
	}
	r, outcomes := list(v), make([]move.Outcome, len(jobs))
	for i := range outcomes {
		switch o := r.next().(type) {
		case int64:
			outcomes[i] = move.Outcome(o)
		default:
			outcomes[i] = move.Failed
			e.log.Error("a job was not imported: its key holds something that penstock did not write", "queue",
				name, "id", jobs[i].ID, "error", o)
		}
	}
	return outcomes, r.err
}

func appendMoved(args []any, j *move.Job) []any {
	marks, at := 0, int64(0)
	if j.Back {
		marks |= cameBack
	}
	if j.HoldsLane {
		marks |= holdsLane
	}
	if j.State != queue.Waiting {
		at = j.At.UnixMicro()
	}
	record := j.Record
	if j.State.Ended() && j.State != queue.Dead {
		record = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(nil, j.Fingerprint), uint16(j.Cost))
	}
	return append(args, j.ID, int(j.State), j.Turn, j.AppendedAt.UnixMicro(), at, j.Attempts, j.Reason, marks,
		j.Timeline, record)
}

// CloseImport implements move.Mover.
func (e *Engine) CloseImport(ctx context.Context, q move.Queue, mark string) error {
	by, err := actorArg(ctx)
	if err != nil {
		return err
	}
	name, b := q.Spec.Name, q.Bucket
	args := []any{
		e.instant(), name, mark, q.Revision, pauseField(q.Pause), q.Pause.Reason, int64(b.TAT), b.Rem, int64(b.Last),
		b.LastCost, q.Held, whoText(q.Pause.By, q.Pause.Note), q.Pause.Since.UnixMicro(), by,
		changelog.ArchiveDetail(mark),
	}
	for _, n := range q.Counts.Values() {
		args = append(args, n)
	}
	args = append(args, len(q.Errors))
	for i := len(q.Errors) - 1; i >= 0; i-- {
		f := q.Errors[i]
		at := binary.BigEndian.AppendUint64(nil, uint64(f.At.UnixMicro()))
		args = append(args, string(at[1:])+f.ID+" "+f.Reason)
	}
	args = append(args, len(q.Limits))
	for _, l := range q.Limits {
		if l.Window != (leaky.Window{}) {
			args = append(args, int64(l.Window.Ends), l.Window.Used, 0, 0)
		} else {
			args = append(args, int64(l.Bucket.TAT), l.Bucket.Rem, int64(l.Bucket.Last), l.Bucket.LastCost)
		}
	}
	v, err := e.repeat(ctx, closeImportScript, e.Partition(name), args...)
	switch {
	case err != nil:
		return err
	case v == int64(0):
		return unknown(name)
	case v == int64(1):
		return fmt.Errorf("%s: %w: it is not open for it", name, move.ErrImport)
	}
	return nil
}
