package redisq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/queue"
)

// run calls a script on one partition, once.
func (e *Engine) run(ctx context.Context, s script, partition int, args ...any) (any, error) {
	if e.closing.Err() != nil {
		return nil, queue.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, e.patience/tries)
	defer cancel()
	v, err := s().Run(ctx, e.client, []string{e.keys[partition]}, args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		e.reloadMasters(err)
		return nil, err
	}
	return v, nil
}

// reloadPause is the minimum time between two reloads of a cluster's masters.
const reloadPause = 200 * time.Millisecond

// reloadMasters makes a cluster client reload its list of masters after a call without an answer. A dead master cannot
// redirect the client to its promoted replica, and go-redis by itself reloads once a minute. It does not block.
func (e *Engine) reloadMasters(err error) {
	client, ok := e.client.(interface{ ReloadState(ctx context.Context) })
	var answer redis.Error
	if !ok || errors.As(err, &answer) || errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed) {
		return
	}
	last, now := e.reloaded.Load(), time.Now()
	if last != nil && now.Sub(*last) < reloadPause || !e.reloaded.CompareAndSwap(last, &now) {
		return
	}
	client.ReloadState(e.closing)
}

// repeat calls a script that may be called again with the same effect, until it answers, the error is final, or ctx
// ends.
func (e *Engine) repeat(ctx context.Context, s script, partition int, args ...any) (any, error) {
	reached := false // an earlier try may have been carried out
	for try := 0; ; try++ {
		v, err := e.run(ctx, s, partition, args...)
		if err == nil {
			return v, nil
		}
		err, again := classify(err)
		if !again && reached { // an earlier try may have carried it out
			return nil, fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, err)
		}
		if !again {
			return nil, err
		}
		if !errors.Is(err, queue.ErrUnavailable) {
			reached = true
		}
		// A failed dial shows soon that a server is away. After a lost reply it is worth waiting to learn what
		// happened.
		wait := time.Duration(min(10<<try, 200)) * time.Millisecond
		if !reached && try >= 4 {
			return nil, err
		}
		select {
		case <-ctx.Done():
			if reached {
				return nil, fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, err)
			}
			return nil, err
		case <-time.After(wait):
		}
	}
}

// unrepeated calls a script that must not be carried out twice. It repeats the call only while the script cannot have
// reached the server.
func (e *Engine) unrepeated(ctx context.Context, s script, partition int, args ...any) (any, error) {
	for try := 0; ; try++ {
		v, err := e.runOnce(ctx, s, partition, args...)
		if err == nil {
			return v, nil
		}
		err, again := classify(err)
		if !again || try >= 4 || errors.Is(err, queue.ErrOutcomeUnknown) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration(10<<try) * time.Millisecond):
		}
	}
}

// runOnce is run with all the time that ctx has, as there is no other try. Neither go-redis nor its cluster client
// repeats the call.
func (e *Engine) runOnce(ctx context.Context, s script, partition int, args ...any) (any, error) {
	if e.closing.Err() != nil {
		return nil, queue.ErrClosed
	}
	client, keys := sendingOnce{e.client}, []string{e.keys[partition]}
	c := s().EvalSha(ctx, client, keys, args...)
	if c.Err() != nil && redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
		c = s().Eval(ctx, client, keys, args...)
	}
	if c.Err() != nil {
		e.reloadMasters(c.Err())
	}
	return c.Result()
}

// sendingOnce is a client that sends a script once.
type sendingOnce struct{ redis.UniversalClient }

func (c sendingOnce) EvalSha(ctx context.Context, hash string, keys []string, args ...any) *redis.Cmd {
	return c.send(ctx, "evalsha", hash, keys, args)
}

func (c sendingOnce) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.send(ctx, "eval", script, keys, args)
}

func (c sendingOnce) send(ctx context.Context, command, script string, keys []string, args []any) *redis.Cmd {
	all := append(make([]any, 0, 3+len(keys)+len(args)), command, script, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := sentOnce{redis.NewCmd(ctx, append(all, args...)...)}
	cmd.SetFirstKeyPos(3)
	_ = c.Process(ctx, cmd)
	return cmd.Cmd
}

// sentOnce is a command that go-redis does not repeat.
type sentOnce struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (sentOnce) NoRetry() bool { return true }

// ask calls a script that only reads: after a lost answer nothing has happened.
func (e *Engine) ask(ctx context.Context, s script, partition int, args ...any) (any, error) {
	v, err := e.once(ctx, s, partition, args...)
	return v, unanswered(err)
}

// unanswered returns the error of a call that may have been carried out.
func unanswered(err error) error {
	if errors.Is(err, queue.ErrOutcomeUnknown) {
		return fmt.Errorf("%w: %s", queue.ErrUnavailable, strings.TrimPrefix(err.Error(),
			queue.ErrOutcomeUnknown.Error()+": "))
	}
	return err
}

// once calls a script once, for callers that repeat the call themselves.
func (e *Engine) once(ctx context.Context, s script, partition int, args ...any) (any, error) {
	v, err := e.run(ctx, s, partition, args...)
	if err != nil {
		err, _ = classify(err)
	}
	return v, err
}

// classify maps errors of Redis and the network to those of package queue, and reports whether asking again can help.
func classify(err error) (mapped error, again bool) {
	var refused redis.Error
	if errors.As(err, &refused) {
		return classifyReply(err)
	}
	var dial *net.OpError
	switch {
	case errors.Is(err, queue.ErrClosed), errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: %w", queue.ErrClosed, err), false
	case errors.As(err, &dial) && dial.Op == "dial", errors.Is(err, redis.ErrPoolTimeout), isDial(err):
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err), true
	default: // the command may have left
		return fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, err), true
	}
}

// isDial recognises errors of go-redis that wrap a failed dial as text.
func isDial(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns)
}

func classifyReply(err error) (mapped error, again bool) {
	text := err.Error()
	code, _, _ := strings.Cut(strings.TrimPrefix(text, "ERR "), " ")
	switch code {
	case "OOM":
		return fmt.Errorf("%w: redis is out of memory (maxmemory): %w", queue.ErrStoreFull, err), false
	case "MISCONF":
		return fmt.Errorf("%w: redis cannot write to its disk: %w", queue.ErrStoreFull, err), false
	case "NOSTORE":
		return fmt.Errorf("%w: %w", queue.ErrNoStore, err), false
	case "WRONGTYPE":
		return fmt.Errorf("%w: %w", queue.ErrCorrupt, err), false
	case "LOADING", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "MASTERDOWN", "MOVED", "ASK", "BUSY", "NOREPLICAS":
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err), true
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return fmt.Errorf("%w: redis refuses the user or password given: %w", queue.ErrUnavailable, err), false
	}
	if strings.Contains(text, "non local key") { // the slot is being moved; a script meets this before it writes
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err), true
	}
	if strings.Contains(text, "user_script") { // a script could not read what is stored
		return fmt.Errorf("%w: %w", queue.ErrCorrupt, err), false
	}
	return fmt.Errorf("%w: redis refused a script: %w", queue.ErrUnavailable, err), false
}

// replyErr is classify for the text of an error inside an answer.
func replyErr(text string) error {
	err, _ := classifyReply(errors.New(text))
	return err
}

// flag returns a boolean argument: 1 or "".
func flag(set bool) string {
	if set {
		return "1"
	}
	return ""
}

// reply reads the values of an answer. A script answers in a fixed shape. Anything else is a store of another version
// or a bug, and must not be read as zeros.
type reply struct {
	v   []any
	err error
}

func list(v any) *reply {
	l, ok := v.([]any)
	if !ok {
		return &reply{err: fmt.Errorf("%w: a script answered %T", queue.ErrCorrupt, v)}
	}
	return &reply{v: l}
}

func (r *reply) next() any {
	if r.err != nil {
		return nil
	}
	if len(r.v) == 0 {
		r.err = fmt.Errorf("%w: a script's answer is cut short", queue.ErrCorrupt)
		return nil
	}
	v := r.v[0]
	r.v = r.v[1:]
	return v
}

func (r *reply) int() int64 {
	v := r.next()
	n, ok := v.(int64)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("%w: a script answered %T in place of a number", queue.ErrCorrupt, v)
	}
	return n
}

func (r *reply) text() string {
	v := r.next()
	s, ok := v.(string)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("%w: a script answered %T in place of a text", queue.ErrCorrupt, v)
	}
	return s
}

func (r *reply) list() *reply {
	v := r.next()
	if r.err != nil {
		return &reply{err: r.err}
	}
	l := list(v)
	r.err = l.err
	return l
}

// ints reads all remaining values.
func (r *reply) ints() []int64 {
	var all []int64
	for r.more() {
		all = append(all, r.int())
	}
	return all
}

func (r *reply) duration() time.Duration { return time.Duration(r.int()) * time.Microsecond }

func (r *reply) more() bool { return r.err == nil && len(r.v) > 0 }
