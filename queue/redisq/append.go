package redisq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// appendItem is a valid job on its way. Its body is 8 bytes for the stamp, which
// the flight fills in, and the record.
type appendItem struct {
	queue, id string
	body      []byte
	cost      int64
	notBefore time.Time
	deferral  deferral
	limited   time.Duration // what Job.Limited says
	stamped   bool          // by a flight before, which may have brought it and lost the answer
	asked
}

const (
	stampBytes = 8
	limitedBit = 1 << 5 // of the seventh byte of a stamp: a flight has fewer items than would reach it
)

// deferral says whether a job may be set aside.
type deferral byte

const (
	notDeferrable deferral = iota
	deferrable
	asQueueSays
)

// deferralOf is what an offered job says of itself.
func deferralOf(j *queue.Job) deferral {
	switch j.Overflow {
	case "":
		return asQueueSays
	case queue.Defer:
		return deferrable
	}
	return notDeferrable
}

func (i appendItem) size() int { return len(i.id) + len(i.body) + i.asked.size() }

// group is by what the jobs of a flight go together: what they are of, and what that asks of them as it is known here.
func (i *appendItem) group() string {
	if i.ruleset == nil {
		return i.queue
	}
	return i.ruleset.group
}

// Append implements queue.Appender.
func (e *Engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.bring(ctx, jobs, func(*queue.Job) deferral { return notDeferrable })
}

// Offer implements queue.Overflow. What is offered travels with what is
// appended.
func (e *Engine) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.bring(ctx, jobs, deferralOf)
}

// bring takes jobs to their queues, those again that were asked by rules which are others by now.
func (e *Engine) bring(ctx context.Context, jobs []queue.Job, deferral func(*queue.Job) deferral) ([]queue.Appended, error) {
	answers, stamped := make([]queue.Appended, len(jobs)), map[int][]byte{}
	stale, err := e.bringSome(ctx, jobs, nil, stamped, deferral, answers)
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
				answers[i].Err = fmt.Errorf("%w: the rules of %s change all the time", queue.ErrUnavailable, name)
			} else {
				again = append(again, i)
			}
		}
		if len(again) == 0 {
			break
		}
		stale, _ = e.bringSome(ctx, jobs, again, stamped, deferral, answers)
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

// bringSome brings those jobs, all if some is nil, and returns of which the rules are others. Their bodies are stamped, and stay so.
func (e *Engine) bringSome(ctx context.Context, jobs []queue.Job, some []int, stamped map[int][]byte, deferral func(*queue.Job) deferral, answers []queue.Appended) (stale []int, err error) {
	total := len(jobs)
	if some != nil {
		total = len(some)
	}
	var parts []part[appendItem]
	for k := range total {
		i := k
		if some != nil {
			i = some[k]
		}
		j := jobs[i]
		j.Normalize()
		if err := j.Validate(); err != nil {
			answers[i] = queue.Appended{Outcome: queue.Invalid, ID: j.ID, Err: err}
			continue
		}
		body, again := stamped[i]
		if !again {
			body = queue.AppendRecord(make([]byte, stampBytes), &j)
		}
		parts = place(parts, e.Partition(j.Queue), i, len(jobs), appendItem{j.Queue, j.ID, body, j.Cost, j.NotBefore, deferral(&j), j.Limited, again, e.asksOf(&j)})
	}
	err = spread(parts, func(p part[appendItem]) error {
		got, err := e.appends[p.partition].Do(ctx, p.items)
		for i, at := range p.at {
			if got == nil {
				answers[at] = queue.Appended{Outcome: queue.Failed, ID: p.items[i].id, Err: err}
			} else {
				answers[at] = got[i]
			}
		}
		return err
	})
	for _, p := range parts {
		for i, at := range p.at {
			if errors.Is(answers[at].Err, errStale) {
				stamped[at] = p.items[i].body
				stale = append(stale, at)
			}
		}
	}
	slices.Sort(stale)
	return stale, err
}

// part is what of a call goes to one partition, and where its answers belong.
type part[T any] struct {
	partition int
	items     []T
	at        []int
}

// place puts item into its partition's part; total is how many there will be at
// most.
func place[T any](parts []part[T], partition, at, total int, item T) []part[T] {
	for i := range parts {
		if parts[i].partition == partition {
			parts[i].items = append(parts[i].items, item)
			parts[i].at = append(parts[i].at, at)
			return parts
		}
	}
	p := part[T]{partition, make([]T, 0, total-at), make([]int, 0, total-at)}
	p.items, p.at = append(p.items, item), append(p.at, at)
	return append(parts, p)
}

// spread does all parts at once. Its error is not nil when every part failed.
func spread[T any](parts []part[T], do func(part[T]) error) error {
	if len(parts) == 1 {
		return do(parts[0])
	}
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() { errs[i] = do(p) })
	}
	wg.Wait()
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

// ofQueue is the items of a flight that concern one queue, by their indices.
type ofQueue struct {
	name  string
	items []int
}

// byQueue groups the items of a flight by queue, in order of first appearance,
// keeping their order within it.
func byQueue[T any](items []T, name func(*T) string) []ofQueue {
	groups := make([]ofQueue, 0, 1)
	var at map[string]int
	for i := range items {
		n := name(&items[i])
		if k := len(groups) - 1; k >= 0 && groups[k].name == n {
			groups[k].items = append(groups[k].items, i)
			continue
		}
		if at == nil {
			at = map[string]int{}
		}
		k, ok := at[n]
		if !ok {
			k = len(groups)
			at[n] = k
			groups = append(groups, ofQueue{name: n, items: make([]int, 0, len(items)-i)})
		}
		groups[k].items = append(groups[k].items, i)
	}
	return groups
}

// sendAppend is one flight.
func (e *Engine) sendAppend(ctx context.Context, partition int, items []appendItem) ([]queue.Appended, error) {
	stamp := e.stamps()
	groups := byQueue(items, (*appendItem).group)
	args := make([]any, 0, 2+6*len(groups)+3*len(items))
	args = append(args, e.instant(), len(groups))
	for _, g := range groups {
		first := &items[g.items[0]]
		args = append(args, first.queue, len(g.items), "", "")
		at := len(args)
		var asks []any // of each job
		if first.ruleset != nil {
			keys := newKeysArg(len(g.items) * len(first.asks))
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
			args = append(args, items[i].id, body)
			if first.ruleset != nil {
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
	for _, g := range groups {
		readAppended(r, items, g.items, answers)
	}
	return answers, r.err
}

// readAppended reads the answers of one queue.
func readAppended(r *reply, items []appendItem, group []int, answers []queue.Appended) {
	for _, i := range group {
		answers[i].ID = items[i].id
	}
	var row *reply
	switch v := r.next().(type) {
	case int64: // unknown, or asked by other rules
		for _, i := range group {
			if v == 1 {
				answers[i].Err = errStale
			} else {
				answers[i].Outcome = queue.UnknownQueue
			}
		}
		return
	case string:
		err := replyErr(v)
		for _, i := range group {
			answers[i].Err = err
		}
		return
	default:
		row = list(v)
	}
	now, pacer, bucket := row.bucket()
	exact, head, waiting, turn, cost := row.int() == 1, row.int(), row.int(), row.int(), row.int()
	goes := leaky.Instant(row.int())
	number, others := row.text(), row.list()
	other := int64(-1)
	if others.more() {
		other = others.int()
	}
	for k, i := range group {
		a := &answers[i]
		if int64(k) != other {
			cost = max(cost, items[i].cost)
			a.Outcome, a.State, a.Position = queue.Accepted, queue.Waiting, waiting+1
			a.ETA = queue.ETA{At: pacer.ETA(bucket, goes, min(turn-head, waiting*cost)).Time(), Exact: exact}
			waiting, turn = waiting+1, turn+items[i].cost
			continue
		}
		code := others.int()
		readOther(a, code, others, number, now)
		switch {
		case code == int64(tooFar):
			j := queue.Job{NotBefore: items[i].notBefore}
			a.Err = j.ValidateAhead(now.Time())
		case code == int64(cannotAsk):
			a.Err = items[i].err
		case a.Outcome == queue.LimitReached:
			a.RetryAfter = max(a.RetryAfter, items[i].limited)
		case code == int64(queue.Accepted) && a.State == queue.Waiting: // behind those that are not named
			waiting, turn, cost = waiting+1, turn+items[i].cost, max(cost, items[i].cost)
		}
		if others.more() {
			other = others.int()
		}
	}
	if row.more() {
		said := row.list()
		for _, i := range group {
			answers[i].Rules = items[i].readRuled(said.text())
		}
	}
	for _, err := range []error{others.err, row.err} {
		if err != nil {
			r.err = err
		}
	}
}

// readOther reads the answer to one job that was not just put in at the end.
func readOther(a *queue.Appended, code int64, r *reply, number string, now leaky.Instant) {
	x, position, eta, more := r.int(), r.int(), r.int(), r.int()
	switch appendAnswer(code) {
	case acceptedBefore:
		a.Outcome = queue.Accepted
	case deferredBefore:
		a.Outcome, a.State = queue.Duplicate, queue.Deferred
		a.Ticket, a.At = newTicket(number, x), now.Time()
		return
	case tooFar, cannotAsk: // who reads it knows why
		a.Outcome = queue.Invalid
		return
	case tooLarge:
		a.Outcome, a.Err = queue.Invalid, queue.NeverFits(more, eta, x == 1)
		return
	case storeFull:
		a.Err = fmt.Errorf("%w: redis is nearly out of memory (maxmemory)", queue.ErrStoreFull)
		return
	default:
		a.Outcome = queue.AppendOutcome(code)
	}
	switch a.Outcome {
	case queue.Accepted:
		a.State, a.Position = queue.State(x), position
		if eta > 0 {
			a.ETA = queue.ETA{At: leaky.Instant(eta).Time(), Exact: more == 1}
		}
	case queue.Duplicate:
		a.State, a.Position = queue.State(x), position
	case queue.Lapsed:
		if x > 0 {
			a.ETA.At = leaky.Instant(x).Time()
		}
	case queue.SetAside:
		a.State, a.Position = queue.Deferred, position
		a.Ticket, a.At, a.ETA.At = newTicket(number, x), micros(more), leaky.Instant(eta).Time()
	case queue.Failed:
		a.Err = replyErr("WRONGTYPE the job's key holds something else")
	default:
		a.RetryAfter, a.Bytes = time.Duration(x)*time.Microsecond, queue.ByteBound{Held: position, Max: eta, Needs: more}
	}
}

// bucket reads the instant, rule and state that several scripts answer with.
func (r *reply) bucket() (leaky.Instant, leaky.Pacer, leaky.Bucket) {
	now, n, d, burst := leaky.Instant(r.int()), r.int(), r.int(), r.int()
	b := leaky.Bucket{TAT: leaky.Instant(r.int()), Rem: r.int(), Last: leaky.Instant(r.int()), LastCost: r.int()}
	return now, leaky.Pacer{Rate: leaky.RateOf(n, d), Burst: burst, Horizon: queue.Horizon}, b
}
