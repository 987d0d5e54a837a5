package redisq

import (
	"context"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/check"
	"github.com/penstock/penstock/queue/names"
)

// Decide implements queue.Jobs.
func (e *Engine) Decide(ctx context.Context, name string, ids []string, verdict queue.Verdict,
	reason string,
) ([]queue.State, error) {
	if names.Validate(name) != nil {
		return nil, unknown(name)
	}
	if err := check.Decision(ids, verdict, reason); err != nil {
		return nil, err
	}
	by, err := actorArg(ctx)
	if err != nil {
		return nil, err
	}
	args := []any{int(verdict), reason, len(ids), by, verdict.Decides().String()}
	for _, id := range ids {
		args = append(args, id)
	}
	v, err := e.keep(ctx, decideScript, name, args...)
	if err != nil {
		return nil, err
	}
	if v == int64(0) {
		return nil, unknown(name)
	}
	answers, states := list(v), make([]queue.State, len(ids))
	for i := range states {
		switch s := answers.next().(type) {
		case int64:
			states[i] = queue.State(s)
		case string:
			e.log.Error("a held job was left as it is: its stored data is not what penstock wrote", "queue",
				name, "id", ids[i], "error", s)
		}
	}
	return states, answers.err
}
