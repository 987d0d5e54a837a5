package redisq

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock/penstock/queue"
)

// ListJobs implements queue.Jobs.
func (e *Engine) ListJobs(ctx context.Context, r queue.ListRequest) (queue.Listing, error) {
	if queue.ValidateName(r.Queue) != nil {
		return queue.Listing{}, unknown(r.Queue)
	}
	if err := r.Validate(); err != nil {
		return queue.Listing{}, err
	}
	c, err := r.Cursor()
	if err != nil {
		return queue.Listing{}, err
	}
	at, member, lane, _, err := placeOf(c, r.State)
	if err != nil {
		return queue.Listing{}, err
	}
	v, err := e.ask(ctx, listScript, e.Partition(r.Queue), e.instant(), r.Queue, int(r.State), r.Limit, digestOf(r.Lane), at, member, lane)
	if err != nil {
		return queue.Listing{}, err
	}
	if v == int64(0) {
		return queue.Listing{}, unknown(r.Queue)
	}
	return readListing(list(v), &r)
}

// digestOf is a lane as scripts know it.
func digestOf(lane *string) string {
	if lane == nil {
		return ""
	}
	d := queue.DigestLane(*lane)
	return string(d[:])
}

func readListing(r *reply, asked *queue.ListRequest) (l queue.Listing, err error) {
	rows := r.list()
	for rows.more() {
		i, err := readListed(rows, asked)
		if err != nil {
			return l, err
		}
		l.Jobs = append(l.Jobs, i)
	}
	if rows.err == nil && r.more() {
		l.Next = asked.Next(queue.Cursor{At: r.number(), ID: r.text(), Lane: r.text()})
	}
	if rows.err != nil {
		return queue.Listing{}, rows.err
	}
	return l, r.err
}

func readListed(r *reply, asked *queue.ListRequest) (queue.JobInfo, error) {
	i := queue.JobInfo{Queue: asked.Queue, State: asked.State, ID: r.text(), Cost: r.int(), Attempts: int(r.int()), AppendedAt: micros(r.int())}
	switch at := micros(r.int()); asked.State {
	case queue.Dead:
		i.EndedAt = at
	case queue.Held:
		i.HeldAt = at
	default:
		i.DueAt = at
	}
	i.Reason = r.text()
	if record := r.text(); record != "" {
		// One that is broken must not hide the others.
		_ = queue.UnpackInfo([]byte(record), &i)
	}
	i.Timeline, _ = queue.UnpackTimeline([]byte(r.text()))
	return i, r.err
}

// DeadQueues implements queue.Jobs.
func (e *Engine) DeadQueues(ctx context.Context, after string, limit int) ([]queue.DeadQueue, error) {
	return merged(len(e.keys), after, limit, nameOfDead, func(p int, after string, n int) ([]queue.DeadQueue, string, error) {
		return e.deadQueues(ctx, p, after, n)
	})
}

// deadQueues asks one partition; next is behind which name its list goes on, if it does.
func (e *Engine) deadQueues(ctx context.Context, partition int, after string, limit int) (found []queue.DeadQueue, next string, err error) {
	v, err := e.ask(ctx, deadQueuesScript, partition, e.instant(), after, limit)
	if err != nil {
		return nil, "", err
	}
	page := list(v)
	for rows := page.list(); rows.more(); {
		name, count, third, gone := rows.text(), rows.int(), rows.next(), rows.text() == "1"
		if rows.err != nil {
			return nil, "", rows.err
		}
		if count < 0 {
			e.log.Error("dead jobs left out of a list: what the store has of them is not what penstock wrote", "queue", name, "error", third)
			continue
		}
		oldest, err := strconv.ParseFloat(fmt.Sprint(third), 64)
		if err != nil {
			return nil, "", fmt.Errorf("%w: a script answered %v in place of an instant", queue.ErrCorrupt, third)
		}
		found = append(found, queue.DeadQueue{Queue: name, Dead: count, Oldest: micros(int64(oldest)), Gone: gone})
	}
	return found, page.text(), page.err
}

// number is a number that may be a score, which Redis writes as a text.
func (r *reply) number() int64 {
	if r.more() {
		if n, ok := r.v[0].(int64); ok {
			r.v = r.v[1:]
			return n
		}
	}
	text := r.text()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: a script answered %s in place of a number", queue.ErrCorrupt, queue.Shorten(text, 40))
	}
	return int64(n)
}

// placeOf is where the page before ended, for a script: at, member, lane; and until when.
func placeOf(c *queue.Cursor, s queue.State) (at, member, lane, until string, err error) {
	if c == nil {
		return "", "", "", "", nil
	}
	if s == queue.Waiting && len(c.Lane) != len(queue.LaneDigest{}) {
		return "", "", "", "", &queue.FieldError{Field: "after", Reason: "names no lane"}
	}
	return strconv.FormatInt(c.At, 10), c.ID, c.Lane, strconv.FormatInt(c.Until, 10), nil
}

// Purge implements queue.Jobs.
func (e *Engine) Purge(ctx context.Context, r queue.PurgeRequest) (queue.Purged, error) {
	if queue.ValidateName(r.Queue) != nil {
		return queue.Purged{}, unknown(r.Queue)
	}
	if err := r.Validate(); err != nil {
		return queue.Purged{}, err
	}
	c, err := r.Cursor()
	if err != nil {
		return queue.Purged{}, err
	}
	at, member, lane, until, err := placeOf(c, r.State)
	if err != nil {
		return queue.Purged{}, err
	}
	by, err := queue.By(ctx)
	if err != nil {
		return queue.Purged{}, err
	}
	v, err := e.keep(ctx, purgeScript, r.Queue, int(r.State), r.Limit, digestOf(r.Lane), until, at, member, lane, by, r.Detail())
	if err != nil {
		return queue.Purged{}, err
	}
	a := list(v)
	p := queue.Purged{Jobs: a.int()}
	if p.Jobs < 0 {
		return queue.Purged{}, unknown(r.Queue)
	}
	if a.more() {
		p.Next = r.Next(queue.Cursor{Until: a.number(), At: a.number(), ID: a.text(), Lane: a.text()})
	}
	return p, a.err
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
		case string: // what has its key is not ours
			outcomes[i] = queue.Broken
			e.log.Error("a dead job was left as it is: what the store has of it is not what penstock wrote", "queue", name, "id", ids[i], "error", o)
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
	if queue.ValidateName(name) != nil {
		return nil, unknown(name)
	}
	if err := queue.ValidateIDs(ids); err != nil {
		return nil, err
	}
	by, err := queue.By(ctx)
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

// keep calls a script that would do more if it were carried out twice: it knows the call
// again by its name.
func (e *Engine) keep(ctx context.Context, s script, name string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	return e.repeat(ctx, s, e.Partition(name), append([]any{e.instant(), randomID(), name}, args...)...)
}

// Decide implements queue.Jobs.
func (e *Engine) Decide(ctx context.Context, name string, ids []string, verdict queue.Verdict, reason string) ([]queue.State, error) {
	if queue.ValidateName(name) != nil {
		return nil, unknown(name)
	}
	if err := queue.ValidateDecision(ids, verdict, reason); err != nil {
		return nil, err
	}
	by, err := queue.By(ctx)
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
			e.log.Error("a held job was left as it is: what the store has of it is not what penstock wrote", "queue", name, "id", ids[i], "error", s)
		}
	}
	return states, answers.err
}
