package redisq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// newTicket names a deferral: the number of the queue, which a queue made again under the name does not share, and the
// number of the ticket.
func newTicket(queueNumber string, ticket int64) queue.Ticket {
	return queue.Ticket(queueNumber + "." + strconv.FormatInt(ticket, 10))
}

// Withdraw implements queue.Overflow.
func (e *Engine) Withdraw(ctx context.Context, w []queue.Ticketed) ([]time.Duration, error) {
	waits := make([]time.Duration, len(w))
	var parts []part[queue.Ticketed]
	for i, t := range w {
		if names.Validate(t.Queue) == nil {
			parts = place(parts, e.Partition(t.Queue), i, len(w), t)
		}
	}
	failed := make([]error, len(e.keys))
	_ = spread(parts, func(p part[queue.Ticketed]) (err error) {
		defer func() { failed[p.partition] = err }()
		for from := 0; from < len(p.items); from += coalesce.MaxItems {
			to := min(from+coalesce.MaxItems, len(p.items))
			answered, err := e.withdraw(ctx, p.partition, p.items[from:to])
			for i, wait := range answered {
				waits[p.at[from+i]] = wait
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return waits, errors.Join(failed...)
}

func (e *Engine) withdraw(ctx context.Context, partition int, w []queue.Ticketed) (waits []time.Duration, err error) {
	args := make([]any, 0, 2+3*len(w))
	args = append(args, e.instant(), len(w))
	for _, t := range w {
		args = append(args, t.Queue, t.ID, string(t.Ticket))
	}
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	v, err := e.repeat(ctx, withdrawScript, partition, args...)
	if err != nil {
		return nil, err
	}
	r := list(v)
	for _, t := range w {
		var wait time.Duration
		switch v := r.next().(type) {
		case int64:
			wait = time.Duration(v) * time.Microsecond
		case string:
			err = errors.Join(err, fmt.Errorf("%s: %w", t.Queue, replyErr(v)))
		}
		waits = append(waits, wait)
	}
	return waits, errors.Join(err, r.err)
}

// Announce implements queue.Overflow.
func (e *Engine) Announce(ctx context.Context, name string) error {
	if names.Validate(name) != nil {
		return unknown(name)
	}
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	v, err := e.repeat(ctx, announceScript, e.Partition(name), e.instant(), name)
	if err == nil && v == int64(0) {
		err = unknown(name)
	}
	return err
}

// Backlogged implements queue.Overflow.
func (e *Engine) Backlogged(ctx context.Context, limit int) ([]string, error) {
	var found []string
	for p := range e.keys {
		if len(found) >= limit {
			break
		}
		v, err := e.ask(ctx, backloggedScript, p, e.instant(), limit-len(found))
		if err != nil {
			return nil, err
		}
		r := list(v)
		for r.more() {
			found = append(found, r.text())
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	return found, nil
}

// Cancel implements queue.Overflow.
func (e *Engine) Cancel(ctx context.Context, name, id string) (queue.State, error) {
	if names.Validate(name) != nil {
		return queue.StateNone, unknown(name)
	}
	if names.ValidateID(id) != nil {
		return queue.StateNone, unknownJob(name, id)
	}
	by, err := actorArg(ctx)
	if err != nil {
		return queue.StateNone, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	v, err := e.repeat(ctx, cancelScript, e.Partition(name), e.instant(), name, id, by)
	if err != nil {
		return queue.StateNone, err
	}
	r := list(v)
	switch r.int() {
	case 0:
		return queue.StateNone, unknown(name)
	case 1:
		return queue.StateNone, unknownJob(name, id)
	}
	return queue.State(r.int()), r.err
}
