package redisq

import (
	"context"
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// appendItem is a valid job on its way.
type appendItem struct {
	queue, id string
	record    []byte
}

func (i appendItem) size() int { return len(i.id) + len(i.record) }

// Append implements queue.Appender.
func (e *Engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	answers := make([]queue.Appended, len(jobs))
	var parts []part[appendItem]
	for i := range jobs {
		j := jobs[i]
		j.Normalize()
		if err := j.Validate(); err != nil {
			answers[i] = queue.Appended{Outcome: queue.Invalid, ID: j.ID, Err: err}
			continue
		}
		parts = place(parts, e.Partition(j.Queue), i, appendItem{j.Queue, j.ID, queue.PackRecord(&j)})
	}
	err := spread(parts, func(p part[appendItem]) error {
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
	return answers, err
}

// part is what of a call goes to one partition, and where its answers belong.
type part[T any] struct {
	partition int
	items     []T
	at        []int
}

func place[T any](parts []part[T], partition, at int, item T) []part[T] {
	for i := range parts {
		if parts[i].partition == partition {
			parts[i].items = append(parts[i].items, item)
			parts[i].at = append(parts[i].at, at)
			return parts
		}
	}
	return append(parts, part[T]{partition, []T{item}, []int{at}})
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

// byQueue orders the items of a flight by queue, in order of first appearance,
// keeping their order within it.
func byQueue[T any](items []T, name func(*T) string) (order [][]int, names []string) {
	at := map[string]int{}
	for i := range items {
		n := name(&items[i])
		k, ok := at[n]
		if !ok {
			k = len(order)
			at[n] = k
			order = append(order, nil)
			names = append(names, n)
		}
		order[k] = append(order[k], i)
	}
	return order, names
}

// sendAppend is one flight.
func (e *Engine) sendAppend(ctx context.Context, partition int, items []appendItem) ([]queue.Appended, error) {
	stamp := e.stamps()
	order, names := byQueue(items, func(i *appendItem) string { return i.queue })
	args := make([]any, 0, 2+2*len(names)+3*len(items))
	args = append(args, e.instant(), len(names))
	for k, name := range names {
		args = append(args, name, len(order[k]))
		for _, i := range order[k] {
			args = append(args, items[i].id, append(stamp[:len(stamp):len(stamp)], byte(i>>8), byte(i)), items[i].record)
		}
	}
	v, err := e.repeat(ctx, appendScript, partition, args...)
	if err != nil {
		return nil, err
	}
	answers := make([]queue.Appended, len(items))
	r := list(v)
	for k := range names {
		e.readAppended(r, items, order[k], answers)
	}
	return answers, r.err
}

// readAppended reads the answers of one queue.
func (e *Engine) readAppended(r *reply, items []appendItem, order []int, answers []queue.Appended) {
	for _, i := range order {
		answers[i].ID = items[i].id
	}
	var row *reply
	switch v := r.next().(type) {
	case int64: // unknown
		for _, i := range order {
			answers[i].Outcome = queue.UnknownQueue
		}
		return
	case string:
		err := replyErr(v)
		for _, i := range order {
			answers[i].Err = err
		}
		return
	default:
		row = list(v)
	}
	now, pacer, bucket := row.bucket()
	head, exact := row.int(), row.int() == 1
	for _, i := range order {
		code, state, x, turn := row.int(), row.int(), row.int(), row.int()
		a := &answers[i]
		switch code {
		case 1, 2:
			a.Outcome = queue.Duplicate
			a.State, a.Position = queue.State(state), x
			if code == 1 {
				a.Outcome = queue.Accepted
				if a.State == queue.Waiting {
					a.ETA = queue.ETA{At: pacer.ETA(bucket, now, turn-head).Time(), Exact: exact}
				}
			}
		case 3:
			a.Outcome = queue.Conflict
		case 4:
			a.Outcome = queue.Full
			a.RetryAfter = time.Duration(x) * time.Microsecond
		default:
			a.Err = replyErr("WRONGTYPE the job's key holds something else")
		}
	}
	if row.err != nil {
		r.err = row.err
	}
}

// bucket reads the instant, rule and state that several scripts answer with.
func (r *reply) bucket() (leaky.Instant, leaky.Pacer, leaky.Bucket) {
	now, n, d, burst := leaky.Instant(r.int()), r.int(), r.int(), r.int()
	b := leaky.Bucket{TAT: leaky.Instant(r.int()), Rem: r.int(), Last: leaky.Instant(r.int()), LastCost: r.int()}
	return now, leaky.Pacer{Rate: leaky.RateOf(n, d), Burst: burst, Horizon: queue.Horizon}, b
}
