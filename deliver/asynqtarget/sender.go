package asynqtarget

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/asynqtarget/asynqtask"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
)

// fullPause is how long a queue stops when Redis is out of memory.
const fullPause = 5 * time.Second

// fresh is how long after its last answer Redis is taken to be reachable.
const fresh = 5 * time.Second

var errOver = fmt.Errorf("%w: this process was too busy to release in time", drain.ErrLate)

// Options are the settings of a Sender.
type Options struct {
	// Redis is asynq's Redis. It is required.
	Redis asynq.RedisConnOpt
	// Concurrency is the maximum number of concurrent releases, and so of connections, unless Redis sets one: a task
	// that waits for a connection would miss its window. The default is go-redis's.
	Concurrency int
	// Prefix is the prefix of the types of all tasks. Empty allows any type.
	Prefix string
}

// Sender returns a Sender for a Router, as the value of deliver.Options.Asynq.
func (o Options) Sender(concurrency int) deliver.Sender {
	o.Concurrency = cmp.Or(o.Concurrency, concurrency)
	return New(o)
}

// Sender releases jobs as tasks.
type Sender struct {
	redis     redis.UniversalClient
	client    *asynq.Client
	inspector *asynq.Inspector
	prefix    string
	used      atomic.Int64 // when Redis answered last, in ns since 1970
}

// New returns a Sender.
func New(o Options) *Sender {
	r := once(pooled(o.Redis, o.Concurrency))
	released := r
	if _, one := r.(*redis.Client); one { // a cluster client would repeat a broken pipeline
		released = &flights{UniversalClient: r}
	}
	return &Sender{
		prefix: o.Prefix, redis: r, client: asynq.NewClientFromRedisClient(released),
		inspector: asynq.NewInspectorFromRedisClient(r),
	}
}

// pooled sets the maximum number of connections, unless the options set one.
func pooled(opt asynq.RedisConnOpt, n int) asynq.RedisConnOpt {
	switch o := opt.(type) {
	case asynq.RedisClientOpt:
		o.PoolSize = cmp.Or(o.PoolSize, n)
		return o
	case asynq.RedisFailoverClientOpt:
		o.PoolSize = cmp.Or(o.PoolSize, n)
		return o
	}
	return opt
}

// once returns a client that sends each command once. By default go-redis repeats a command whose answer was lost. A
// task that was processed meanwhile would be released a second time without notice.
func once(opt asynq.RedisConnOpt) redis.UniversalClient {
	client := opt.MakeRedisClient().(redis.UniversalClient)
	if c, ok := client.(*redis.Client); ok { // a cluster client needs its retries to follow redirects
		c.Options().MaxRetries = 0
	}
	return client
}

// Close closes the connections.
func (s *Sender) Close() error { return s.redis.Close() }

// Deliver releases a job as a task; see deliver.Sender.
func (s *Sender) Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, with setting.Setting) error {
	t := with.(*asynqtask.Target)
	p, err := t.Plan(&job.Job)
	if err != nil {
		return drain.Permanent(err) // appended when the queue had another target
	}
	if !strings.HasPrefix(p.Task, s.prefix) {
		err := fmt.Errorf(
			"the drainers release only tasks whose types begin with %s (--asynq-prefix), and not %s", s.prefix, p.Task,
		)
		if t.Task == "" { // the job chose the type; other jobs may choose another
			return drain.Permanent(err)
		}
		return drain.Down(err)
	}
	task, options := newTask(&p, job, t)
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := gate.Wait(ctx); err != nil {
		return err
	}
	if time.Now().After(gate.Closes()) {
		return errOver
	}
	at := &seat{gate: gate}
	_, err = s.client.EnqueueContext(seated(ctx, at), task, options...)
	switch {
	case err == nil:
		s.used.Store(time.Now().UnixNano())
		return nil
	case at.kept != nil:
		return at.kept
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return s.known(job, t, p)
	case ctx.Err() != nil:
		return drain.Unknown(fmt.Errorf("interrupted: %w", context.Cause(ctx)))
	}
	return judged(fmt.Errorf("asynq: %w", err))
}

// ready connects before the gate if Redis has not answered for a while. Behind the gate the task would be late.
func (s *Sender) ready(ctx context.Context) error {
	if time.Since(time.Unix(0, s.used.Load())) < fresh {
		return nil
	}
	err := s.redis.Ping(ctx).Err()
	switch {
	case err == nil:
		s.used.Store(time.Now().UnixNano())
		return nil
	case ctx.Err() != nil:
		return interrupted(ctx)
	}
	return drain.Down(fmt.Errorf("asynq: %w", err)) // nothing was released
}

// interrupted returns the error of a job whose context ended before anything was released.
func interrupted(ctx context.Context) error {
	return drain.Unsent(fmt.Errorf("interrupted: %w", context.Cause(ctx)))
}

func newTask(p *asynqtask.Plan, job *drain.Job, t *asynqtask.Target) (*asynq.Task, []asynq.Option) {
	p.Headers[setting.HeaderID] = job.ID
	p.Headers[setting.HeaderQueue] = job.Queue
	p.Headers[setting.HeaderAttempt] = strconv.Itoa(job.Attempt)
	options := []asynq.Option{asynq.TaskID(job.ID), asynq.Queue(t.Queue)}
	if p.MaxRetry != nil {
		options = append(options, asynq.MaxRetry(*p.MaxRetry))
	}
	if p.Timeout != 0 {
		options = append(options, asynq.Timeout(p.Timeout))
	}
	if !p.Deadline.IsZero() {
		options = append(options, asynq.Deadline(p.Deadline))
	}
	if p.Retention != 0 {
		options = append(options, asynq.Retention(p.Retention))
	}
	if p.Group != "" {
		options = append(options, asynq.Group(p.Group))
	}
	return asynq.NewTaskWithHeaders(p.Task, job.Payload, p.Headers), options
}

// known returns the error of a job whose ID asynq already has: it is delivered if the task is the job's own.
func (s *Sender) known(job *drain.Job, t *asynqtask.Target, p asynqtask.Plan) error {
	info, err := s.inspector.GetTaskInfo(t.Queue, job.ID)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return drain.Unknown(
			errors.New("asynq had a task with this id, which may have been this job's, and has it no longer"),
		)
	case err != nil:
		return drain.Trouble(drain.Unknown(fmt.Errorf("asynq has a task with this id, and it is unknown whose: %w", err)))
	case info.Type == p.Task && bytes.Equal(info.Payload, job.Payload) &&
		(info.Headers[setting.HeaderQueue] == job.Queue || info.Headers[setting.HeaderQueue] == ""):
		return nil
	}
	return drain.Permanent(fmt.Errorf("asynq's queue %s has another task of this id", t.Queue))
}

// judged converts an error of Redis to an error for the drainer.
func judged(err error) error {
	var op *net.OpError
	text := err.Error()
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return drain.Down(err)
	case has(text, "OOM "):
		return drain.ThrottledBy(err, time.Now().Add(fullPause))
	case has(
		text, "NOAUTH", "WRONGPASS", "NOPERM", "READONLY", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "MISCONF",
		"connection pool",
	):
		return drain.Down(err)
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		has(text, "EOF", "connection reset", "broken pipe") {
		return drain.Trouble(drain.Unknown(err)) // it may be in; asynq recognizes its ID
	}
	return drain.Trouble(err)
}

func has(text string, any ...string) bool {
	for _, part := range any {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
