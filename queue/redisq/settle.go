package redisq

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Settle implements queue.Outflow.
func (e *Engine) Settle(ctx context.Context, settlements []queue.Settlement) ([]queue.Settled, error) {
	var answers []queue.Settled
	var parts []part[queue.Settlement]
	for i, s := range settlements {
		if s.Verdict < queue.Deliver || s.Verdict > queue.Down {
			if answers == nil {
				answers = make([]queue.Settled, len(settlements))
			}
			answers[i].Err = &invalid.Error{
				Field:  "verdict",
				Reason: "is none of deliver, fail, bury, release, hold, throttle, down",
			}
			continue
		}
		if err := queue.ValidateCosts("actual", s.Actual); err != nil {
			if answers == nil {
				answers = make([]queue.Settled, len(settlements))
			}
			answers[i].Err = err
			continue
		}
		if len(s.Reason) > queue.MaxReasonBytes {
			s.Reason = clip.Text(s.Reason, queue.MaxReasonBytes)
		}
		parts = place(parts, e.Partition(s.Queue), i, len(settlements), s)
	}
	return gather(ctx, e.settles, parts, answers, len(settlements), failedSettle)
}

func failedSettle(_ queue.Settlement, err error) queue.Settled { return queue.Settled{Err: err} }

// settleQueues is the maximum number of queues of one script, so that no other call waits long for it.
const settleQueues = 2 * queue.MaxVisits

func (e *Engine) sendSettle(ctx context.Context, partition int, items []queue.Settlement) ([]queue.Settled, error) {
	groups := byQueue(items, func(s *queue.Settlement) string { return s.Queue })
	answers := make([]queue.Settled, len(items))
	for from := 0; from < len(groups); from += settleQueues {
		some := groups[from:min(from+settleQueues, len(groups))]
		err := e.settleSome(ctx, partition, items, some, answers)
		switch {
		case err != nil && len(groups) <= settleQueues:
			return nil, err
		case err != nil:
			for _, g := range some {
				for _, i := range g.items {
					answers[i] = failedSettle(items[i], err)
				}
			}
		}
	}
	return answers, nil
}

// settleSome settles jobs of some queues in one script.
func (e *Engine) settleSome(
	ctx context.Context, partition int, items []queue.Settlement, groups []ofQueue, answers []queue.Settled,
) error {
	args, fences := make([]any, 0, 2+2*len(groups)+5*len(items)), make([]fenceArg, len(items))
	args = append(args, e.instant(), len(groups))
	for _, g := range groups {
		args = append(args, g.name, len(g.items))
		for _, i := range g.items {
			s := &items[i]
			fences[i] = packFence(s.Fence)
			args = append(args, &s.ID, &fences[i], verdictCode(s), max(s.After, 0).Microseconds(), &s.Reason)
		}
	}
	args = append(args, budgetArgs(items, groups)...)
	v, err := e.repeat(ctx, settleScript, partition, args...)
	if err != nil {
		return err
	}
	r := list(v)
	for _, g := range groups {
		for _, i := range g.items {
			switch v := r.next().(type) {
			case int64:
				answers[i] = queue.Settled{Stale: v == 0, State: queue.State(v)}
			case []any:
				said := &reply{v: v}
				if unit, of := v[0].(string); of {
					answers[i] = queue.Settled{Err: queue.UncountedUnit("actual", unit, g.name)}
					continue
				}
				answers[i] = queue.Settled{
					State:  queue.State(said.int()),
					Effect: queue.Effect{Stopped: said.duration(), Opened: said.int() == 1, Closed: said.int() == 1},
				}
				if said.more() {
					answers[i].Effect.From, answers[i].Effect.To = readRate(said), readRate(said)
				}
				r.err = errors.Join(r.err, said.err)
			case string:
				answers[i] = queue.Settled{Err: replyErr(v)}
			}
		}
	}
	return r.err
}

// budgetArgs returns the last arguments of settle.lua.
func budgetArgs(items []queue.Settlement, groups []ofQueue) (args []any) {
	for g := range groups {
		for k, i := range groups[g].items {
			if b := items[i].Budget; b.Reset > 0 {
				args = append(args, g+1, k+1, max(0, b.Remaining), b.Reset.Microseconds())
			}
			actual := items[i].Actual
			for _, unit := range slices.Sorted(maps.Keys(actual)) {
				args = append(args, g+1, k+1, unit, actual[unit])
			}
		}
	}
	return args
}

// The marks that scripts find added to a verdict. A throttled job with trouble had no target.
const (
	laneOnly = 16 << iota
	trouble
	untold // or unused
)

// verdictCode returns a verdict with its marks, as settle.lua reads it.
func verdictCode(s *queue.Settlement) int {
	code := int(s.Verdict)
	if s.NoTarget && s.Verdict == queue.Throttle {
		return code + trouble
	}
	if s.LaneOnly {
		code += laneOnly
	}
	if s.Trouble && s.Verdict != queue.Throttle {
		code += trouble
	}
	if s.Untold && s.Verdict == queue.Throttle || s.Unused && s.Verdict == queue.Down {
		code += untold
	}
	return code
}

// Extend implements queue.Outflow.
func (e *Engine) Extend(ctx context.Context, leases []queue.Lease) ([]queue.Extended, error) {
	answers := make([]queue.Extended, len(leases))
	var parts []part[queue.Lease]
	for i, l := range leases {
		parts = place(parts, e.Partition(l.Queue), i, len(leases), l)
	}
	failed := make([]error, len(e.keys)) // a lease without an answer is not lost
	_ = spread(parts, func(p part[queue.Lease]) (err error) {
		defer func() { failed[p.partition] = err }()
		for from := 0; from < len(p.items); from += coalesce.MaxItems {
			to := min(from+coalesce.MaxItems, len(p.items))
			args := make([]any, 0, 2+3*(to-from))
			args = append(args, e.instant(), to-from)
			for _, l := range p.items[from:to] {
				fence := packFence(l.Fence)
				args = append(args, l.Queue, l.ID, &fence)
			}
			ctx, cancel := context.WithTimeout(ctx, e.patience)
			v, err := e.repeat(ctx, extendScript, p.partition, args...)
			cancel()
			if err != nil {
				return err
			}
			r := list(v)
			for _, at := range p.at[from:to] {
				answers[at] = readExtended(r)
			}
			if r.err != nil {
				return r.err
			}
		}
		return nil
	})
	return answers, errors.Join(failed...)
}

func readExtended(r *reply) queue.Extended {
	switch v := r.next().(type) {
	case int64:
		return queue.Extended{Left: time.Duration(v) * time.Microsecond}
	case []any:
		said := &reply{v: v}
		a := queue.Extended{
			Left: said.duration(), Effect: queue.Effect{Stopped: said.duration(), Opened: said.int() == 1},
		}
		r.err = errors.Join(r.err, said.err)
		return a
	case string:
		return queue.Extended{Err: replyErr(v)}
	}
	return queue.Extended{}
}

// Sweep implements queue.Outflow.
func (e *Engine) Sweep(ctx context.Context, partition int) (more bool, err error) {
	v, err := e.once(ctx, sweepScript, partition, e.instant())
	if err != nil {
		return false, err
	}
	r := list(v)
	more = r.int() == 1
	for stale := r.list(); stale.more(); {
		name := stale.text()
		if err := e.renew(ctx, partition, name); err != nil {
			// The store continues in steps of the last window, and asks again.
			e.log.Warn("the calendar of a queue could not be renewed", "queue", name, "error", err)
		}
	}
	return more, r.err
}

// Throttle implements queue.Specs.
func (e *Engine) Throttle(
	ctx context.Context, name string, after time.Duration, reason string,
) (until time.Time, err error) {
	if err := queue.ValidateThrottle(after); err != nil {
		return until, err
	}
	if names.Validate(name) != nil {
		return until, unknown(name)
	}
	us := max(1, min(after, queue.MaxStop).Microseconds())
	v, err := e.repeat(
		ctx, throttleScript, e.Partition(name), e.instant(), name, us, clip.Text(reason, queue.MaxReasonBytes),
	)
	if err != nil {
		return until, err
	}
	r := list(v)
	switch r.int() {
	case 0:
		return until, unknown(name)
	case 2:
		return until, queue.NoReceiver(name)
	}
	return micros(r.int()), r.err
}

// micros returns the instant of a reply as a time; zero stays zero.
func micros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
