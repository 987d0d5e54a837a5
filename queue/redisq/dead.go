package redisq

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/check"
	"github.com/penstock/penstock/queue/names"
)

// DeadQueues implements queue.Jobs.
func (e *Engine) DeadQueues(ctx context.Context, after string, limit int) ([]queue.DeadQueue, error) {
	return merged(len(e.keys), after, limit, nameOfDead, func(p int, after string, n int) ([]queue.DeadQueue, string,
		error,
	) {
		return e.deadQueues(ctx, p, after, n)
	})
}

// deadQueues asks one partition; next is the name to continue with, "" at the end.
func (e *Engine) deadQueues(ctx context.Context, partition int, after string, limit int) (found []queue.DeadQueue,
	next string, err error,
) {
	v, err := e.ask(ctx, deadQueuesScript, partition, e.instant(), after, limit)
	if err != nil {
		return nil, "", err
	}
	page := list(v)
	for rows := page.list(); rows.more(); {
		name, count, third, gone := rows.text(), rows.int(), rows.next(), rows.text() == "1"
		bytes := rows.int()
		if rows.err != nil {
			return nil, "", rows.err
		}
		if count < 0 {
			e.log.Error("dead jobs left out of a list: their stored data is not what penstock wrote", "queue",
				name, "error", third)
			continue
		}
		oldest, err := strconv.ParseFloat(fmt.Sprint(third), 64)
		if err != nil {
			return nil, "", fmt.Errorf("%w: a script answered %v in place of an instant", queue.ErrCorrupt, third)
		}
		found = append(found, queue.DeadQueue{
			Queue: name, Dead: count, Bytes: bytes, Oldest: micros(int64(oldest)), Gone: gone,
		})
	}
	return found, page.text(), page.err
}

// Replay implements queue.Jobs.
func (e *Engine) Replay(ctx context.Context, name string, ids []string) ([]queue.ReplayOutcome, error) {
	answers, err := e.keepIDs(ctx, replayScript, name, ids)
	if err != nil {
		return nil, err
	}
	outcomes := make([]queue.ReplayOutcome, len(ids))
	for i := range outcomes {
		switch o := answers.next().(type) {
		case int64:
			if o < 0 || o > int64(queue.Broken) {
				return nil, fmt.Errorf("%w: a script answered with outcome %d of job %d", queue.ErrCorrupt, o, i)
			}
			outcomes[i] = queue.ReplayOutcome(o)
		case string: // its key is another program's
			outcomes[i] = queue.Broken
			e.log.Error("a dead job was left as it is: its stored data is not what penstock wrote", "queue",
				name, "id", ids[i], "error", o)
		}
	}
	return outcomes, answers.err
}

// Forget implements queue.Jobs.
func (e *Engine) Forget(ctx context.Context, name string, ids []string) ([]bool, error) {
	answers, err := e.keepIDs(ctx, forgetScript, name, ids)
	if err != nil {
		return nil, err
	}
	dropped := make([]bool, len(ids))
	for i := range dropped {
		dropped[i] = answers.int() == 1
	}
	return dropped, answers.err
}

func (e *Engine) keepIDs(ctx context.Context, s script, name string, ids []string) (*reply, error) {
	if names.Validate(name) != nil {
		return nil, unknown(name)
	}
	if err := check.IDs(ids); err != nil {
		return nil, err
	}
	by, err := actorArg(ctx)
	if err != nil {
		return nil, err
	}
	args := append(make([]any, 0, 2+len(ids)), len(ids), by)
	for _, id := range ids {
		args = append(args, id)
	}
	v, err := e.keep(ctx, s, name, args...)
	if err != nil {
		return nil, err
	}
	if v == int64(0) {
		return nil, unknown(name)
	}
	return list(v), nil
}

// keep calls a script that would change more if it were carried out twice. The script recognizes a repeated call by its
// name.
func (e *Engine) keep(ctx context.Context, s script, name string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	return e.repeat(ctx, s, e.Partition(name), append([]any{e.instant(), randomID(), name}, args...)...)
}
