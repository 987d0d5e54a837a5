package redisq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/queue"
)

// pendingJob is a valid job on its way to its queue. Its body is 8 bytes for the stamp, which the batch fills in, and
// the record.
type pendingJob struct {
	queue, id string
	body      []byte
	cost      int64
	limited   time.Duration // Job.Limited
	deferral  deferral
	stamped   bool // by an earlier batch, which may have appended it and lost the answer
	*asked         // nil if its queue asks no rules
}

const (
	stampBytes = 8
	limitedBit = 1 << 5 // of the seventh byte of a stamp; the index of an item is too small to reach it
)

// deferral says whether a job may be deferred.
type deferral byte

const (
	notDeferrable deferral = iota
	deferrable
	asQueueSays
)

// deferralOf returns the deferral of a job, which must be offered to be deferred.
func deferralOf(j *queue.Job, offered bool) deferral {
	switch {
	case offered && j.Overflow == "":
		return asQueueSays
	case offered && j.Overflow == queue.Defer:
		return deferrable
	}
	return notDeferrable
}

func (i pendingJob) size() int { return len(i.id) + len(i.body) + i.asked.size() }

// MarshalBinary implements encoding.BinaryMarshaler. It makes the body an argument of a script; a slice would be copied
// to the heap.
func (i *pendingJob) MarshalBinary() ([]byte, error) { return i.body, nil }

// group returns the key by which the jobs of a batch go together: their queue, and its ruleset as it is known here.
func (i *pendingJob) group() string {
	if i.asked == nil {
		return i.queue
	}
	return i.queueRules.group
}

// Append implements queue.Appender.
func (e *Engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.appendAll(ctx, jobs, false)
}

// Offer implements queue.Overflow. Offered jobs share batches with appended ones.
func (e *Engine) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.appendAll(ctx, jobs, true)
}

// appendAll appends jobs. It appends those again that asked a ruleset which has changed meanwhile. Offered jobs may be
// deferred.
func (e *Engine) appendAll(ctx context.Context, jobs []queue.Job, offered bool) ([]queue.Appended, error) {
	stamped := map[int][]byte{}
	answers, stale, err := e.appendSome(ctx, jobs, nil, stamped, offered, nil)
	for try := 0; err == nil && len(stale) > 0; try++ {
		learned := map[string]error{}
		again := stale[:0]
		for _, i := range stale {
			name := jobs[i].Queue
			if _, ok := learned[name]; !ok {
				learned[name] = e.learnRules(ctx, name)
			}
			if err := learned[name]; err != nil {
				answers[i].Err = err
			} else if try == mostReads {
				answers[i].Err = fmt.Errorf("%w: the rules of %s keep changing", queue.ErrUnavailable, name)
			} else {
				again = append(again, i)
			}
		}
		if len(again) == 0 {
			break
		}
		_, stale, _ = e.appendSome(ctx, jobs, again, stamped, offered, answers)
	}
	if err == nil && noneFits(answers) {
		err = answers[0].Err
	}
	return answers, err
}

// noneFits reports whether the store had no room for any of the jobs.
func noneFits(answers []queue.Appended) bool {
	for i := range answers {
		if !errors.Is(answers[i].Err, queue.ErrStoreFull) {
			return false
		}
	}
	return len(answers) > 0
}

// appendSome appends the given jobs (all, if some is nil), and returns the indices of those whose ruleset has changed
// meanwhile. Bodies that were sent once keep their stamps. It adds to answers, unless that is nil.
func (e *Engine) appendSome(ctx context.Context, jobs []queue.Job, some []int, stamped map[int][]byte,
	offered bool, answers []queue.Appended,
) (all []queue.Appended, stale []int, err error) {
	total := len(jobs)
	if some != nil {
		total = len(some)
	}
	var parts []part[pendingJob]
	for k := range total {
		i := k
		if some != nil {
			i = some[k]
		}
		j := jobs[i]
		j.Normalize()
		if err := j.Validate(); err != nil {
			if answers == nil {
				answers = make([]queue.Appended, len(jobs))
			}
			answers[i] = queue.Appended{Outcome: queue.Invalid, ID: j.ID, Err: err}
			continue
		}
		body, again := stamped[i]
		if !again {
			body = jobrecord.Append(make([]byte, stampBytes), &j)
		}
		parts = place(parts, e.Partition(j.Queue), i, len(jobs),
			pendingJob{j.Queue, j.ID, body, j.Cost, j.Limited, deferralOf(&j, offered), again, e.asksOf(&j)})
	}
	answers, err = gather(ctx, e.appends, parts, answers, len(jobs), failedAppend)
	for _, p := range parts {
		for i, at := range p.at {
			if errors.Is(answers[at].Err, errStale) {
				stamped[at] = p.items[i].body
				stale = append(stale, at)
			}
		}
	}
	slices.Sort(stale)
	return answers, stale, err
}

func failedAppend(i pendingJob, err error) queue.Appended {
	return queue.Appended{Outcome: queue.Failed, ID: i.id, Err: err}
}

// sendAppend sends one batch.
func (e *Engine) sendAppend(ctx context.Context, partition int, items []pendingJob) ([]queue.Appended, error) {
	stamp := e.stamps()
	groups := byQueue(items, (*pendingJob).group)
	args, sent := make([]any, 0, 3+6*len(groups)+3*len(items)), time.Now()
	args = append(args, e.instant(), len(groups), e.clocks[partition].latest(sent))
	for _, g := range groups {
		first := &items[g.items[0]]
		args = append(args, first.queue, len(g.items), "", "")
		at := len(args)
		var asks []any // of each job
		if first.asked != nil {
			asked := 0 // of all jobs: a job that cannot be asked has no asks
			for _, i := range g.items {
				asked += len(items[i].asks)
			}
			keys := newKeysArg(asked)
			asks = make([]any, 0, len(g.items))
			for _, i := range g.items {
				asks = append(asks, items[i].pack(&keys))
			}
			args[at-1] = first.known
			args = slices.Grow(args, 2+len(keys.keys)+3*len(g.items))
			args = append(append(args, keys.bounds.packed, keys.of), keys.keys...)
		}
		for k, i := range g.items {
			body := items[i].body
			if !items[i].stamped {
				copy(body, stamp[:])
				body[6], body[7] = byte(items[i].deferral)<<6|byte(i>>8), byte(i)
				if items[i].limited > 0 {
					body[6] |= limitedBit
				}
			}
			if items[i].limited > 0 {
				args[at-2] = 1
			}
			args = append(args, &items[i].id, &items[i])
			if first.asked != nil {
				args = append(args, asks[k])
			}
		}
	}
	v, err := e.repeat(ctx, appendScript, partition, args...)
	if err != nil {
		return nil, err
	}
	answers := make([]queue.Appended, len(items))
	r := list(v)
	if e.now == nil {
		e.clocks[partition].observe(shownIn(r.v), sent)
	}
	for _, g := range groups {
		readAppended(r, items, g.items, answers)
	}
	return answers, r.err
}
