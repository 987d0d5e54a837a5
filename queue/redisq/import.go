package redisq

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/ruleset"
)

// newQueue is a queue to import, prepared for a script.
type newQueue struct {
	moved        *move.Queue
	ruled        string // the rules of its group that it names
	text         []byte // of its spec
	digest, show []byte // see shown
}

func (e *Engine) newQueue(q *move.Queue) (n newQueue, err error) {
	n.moved = q
	q.Spec.Normalize()
	if err := q.Spec.Validate(); err != nil {
		return n, err
	}
	n.ruled = strings.Join(ruleset.Names(q.Spec.Name, nil, q.Spec.Rules), " ")
	if n.text, err = queue.EncodeSpec(q.Spec); err == nil {
		n.digest, n.show = e.shown(string(queue.OfQueue), n.text, n.text)
	}
	return n, err
}

// ImportQueues implements move.Mover.
func (e *Engine) ImportQueues(ctx context.Context, queues []move.Queue, mark string) ([]bool, error) {
	by, err := actorArg(ctx)
	if err != nil {
		return nil, err
	}
	// A script does not compare a queue with others of the same call, so parents come in earlier calls.
	var parents, children []part[newQueue]
	for i := range queues {
		n, err := e.newQueue(&queues[i])
		if err != nil {
			return nil, err
		}
		to := &parents
		if names.Parent(queues[i].Spec.Name) != "" {
			to = &children
		}
		*to = place(*to, e.Partition(queues[i].Spec.Name), i, len(queues), n)
	}
	done, errs := make([]bool, len(queues)), make([]error, len(e.keys))
	for _, parts := range [][]part[newQueue]{parents, children} {
		_ = spread(parts, func(p part[newQueue]) error {
			errs[p.partition] = e.importPart(ctx, p, by, mark, done)
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// importPart imports the queues of a partition step by step, and notes which are imported.
func (e *Engine) importPart(ctx context.Context, p part[newQueue], by, mark string, done []bool) error {
	for from := 0; from < len(p.items); {
		to, bytes := from, 0
		for to < len(p.items) && to < from+move.MaxStep && bytes < move.MaxPageBytes {
			bytes += len(p.items[to].text) + len(p.items[to].show)
			to++
		}
		step := part[newQueue]{p.partition, p.items[from:to], p.at[from:to]}
		if err := e.importStep(ctx, step, by, mark, done); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// What importqueues.lua answers about a queue.
const (
	newQueueImported = 1
	newQueuePossible = 2
)

// importStep imports the queues of a call. If some of them cannot be imported, it repeats the call with the others.
func (e *Engine) importStep(ctx context.Context, p part[newQueue], by, mark string, done []bool) error {
	for len(p.items) > 0 {
		args, err := e.importArgs(ctx, p, by, mark)
		if err != nil {
			return err
		}
		v, err := e.repeat(ctx, importQueuesScript, p.partition, args...)
		if err != nil {
			return err
		}
		r, rest := list(v), part[newQueue]{partition: p.partition}
		for i, at := range p.at {
			switch r.int() {
			case newQueueImported:
				done[at] = true
			case newQueuePossible:
				rest.items, rest.at = append(rest.items, p.items[i]), append(rest.at, at)
			}
		}
		if r.err != nil {
			return r.err
		}
		p = rest
	}
	return nil
}

func (e *Engine) importArgs(ctx context.Context, p part[newQueue], by, mark string) ([]any, error) {
	listed, revision := make([]audit.ListedQueue, len(p.items)), int64(0)
	kinds, specs, rows := map[string]int{}, []any{}, []any{len(p.items)}
	for i := range p.items {
		n := &p.items[i]
		q := n.moved
		listed[i] = audit.ListedQueue{Name: q.Spec.Name, Spec: audit.Digest(hex.EncodeToString(n.digest))}
		revision = max(revision, q.Revision)
		kind := settingsOf(n.text, q.Spec.Name)
		if kinds[kind] == 0 {
			now, err := e.wallNow(ctx, &q.Spec, p.partition)
			if err != nil {
				return nil, err
			}
			settings, err := specArgs(&q.Spec, now)
			if err != nil {
				return nil, err
			}
			kinds[kind], specs = len(kinds)+1, append(specs, settings...)
		}
		rows = append(rows, q.Spec.Name, n.ruled, kinds[kind], n.digest, n.show, n.text, q.Turn, q.MaxCost,
			pauseField(q.Pause), q.Pause.Reason, whoText(q.Pause.By, q.Pause.Note), q.Pause.Since.UnixMicro(),
			int64(q.Bucket.TAT), q.Bucket.Rem, int64(q.Bucket.Last), q.Bucket.LastCost)
		rows = appendCounts(rows, q)
		rows = appendErrors(rows, q.Errors)
		rows = append(appendLimits(rows, q.Limits), queue.PackLearned(q.Learned))
	}
	text, err := audit.EncodeList(listed)
	if err != nil {
		return nil, err
	}
	args := []any{
		e.instant(), mark, by, changelog.ArchiveDetail(mark), revision, queue.MaxChildren, string(audit.DigestOf(text)), text,
		len(kinds),
	}
	return slices.Concat(args, specs, rows), nil
}

// settingsOf returns the text of a spec after its name, which queues with the same settings share.
func settingsOf(text []byte, name string) string {
	_, settings, found := bytes.Cut(text, []byte(`{"name":"`+name+`"`))
	if !found {
		settings = text
	}
	return string(settings)
}

// appendCounts appends the counters of a queue without jobs that are not 0.
func appendCounts(args []any, q *move.Queue) []any {
	counts := q.Counts
	counts.Appended -= q.Held // an export of a store in use may have counted jobs that had left
	at, n := len(args), 0
	args = append(args, nil)
	for i, count := range counts.Values() {
		if count != 0 {
			args, n = append(args, i+1, count), n+1
		}
	}
	args[at] = n
	return args
}

// appendErrors appends the last errors of a queue, the oldest first.
func appendErrors(args []any, list []queue.LastError) []any {
	args = append(args, len(list))
	for _, f := range slices.Backward(list) {
		at := binary.BigEndian.AppendUint64(nil, uint64(f.At.UnixMicro()))
		args = append(args, string(at[1:])+f.ID+" "+f.Reason)
	}
	return args
}

// appendLimits appends the states of limits.
func appendLimits(args []any, states []queue.LimitState) []any {
	args = append(args, len(states))
	for _, l := range states {
		if l.Window != (leaky.Window{}) {
			args = append(args, int64(l.Window.Ends), l.Window.Used, l.Window.Step, 0)
		} else {
			args = append(args, int64(l.Bucket.TAT), l.Bucket.Rem, int64(l.Bucket.Last), l.Bucket.LastCost)
		}
	}
	return args
}

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
	args = append(appendLimits(appendErrors(args, q.Errors), q.Limits), queue.PackLearned(q.Learned))
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
