package asynqtarget

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver/asynqtarget/asynqtask"
	"github.com/penstock/penstock/queue"
)

// Client enqueues tasks like asynq.Client, but into Penstock queues. Queues with an asynq target release them to asynq
// at their rate.
type Client struct{ appender queue.Appender }

// NewClient returns a Client of an engine, or of another appender.
func NewClient(appender queue.Appender) *Client { return &Client{appender} }

// Refused is the error of a task that found no room.
type Refused struct {
	Outcome queue.AppendOutcome
	// RetryAfter is the time to come back.
	RetryAfter time.Duration
}

func (r *Refused) Error() string {
	return fmt.Sprintf("asynqtarget: the task was refused (%v); try again in %v", r.Outcome, r.RetryAfter)
}

// Enqueue is EnqueueContext with the background context.
func (c *Client) Enqueue(task *asynq.Task, options ...asynq.Option) (*asynq.TaskInfo, error) {
	return c.EnqueueContext(context.Background(), task, options...)
}

// EnqueueContext appends a task to the Penstock queue that asynq.Queue names, by default "default". TaskID is the job's
// ID. ProcessAt and ProcessIn schedule the job. Unique refuses another task of this type, payload and queue for as long
// as the queue remembers this one (its retention, and not the given time). MaxRetry, Timeout, Deadline, Retention and
// Group apply in asynq once the task is released.
//
// Options given to asynq.NewTask are not visible to other packages: give them here.
//
// Errors: asynq.ErrTaskIDConflict, asynq.ErrDuplicateTask, *Refused, an *invalid.Error, and the appender's.
func (c *Client) EnqueueContext(
	ctx context.Context, task *asynq.Task, options ...asynq.Option,
) (*asynq.TaskInfo, error) {
	if task == nil {
		return nil, errors.New("asynqtarget: the task is nil")
	}
	job, unique, err := jobOf(task, options)
	if err != nil {
		return nil, err
	}
	answers, err := c.appender.Append(ctx, []queue.Job{job})
	if len(answers) != 1 {
		if err == nil {
			err = errors.New("asynqtarget: no answer")
		}
		return nil, err
	}
	switch a := answers[0]; a.Outcome {
	case queue.Accepted:
		info := &asynq.TaskInfo{
			ID: job.ID, Queue: job.Queue, Type: task.Type(), Payload: task.Payload(), Headers: task.Headers(),
			State: asynq.TaskStatePending, NextProcessAt: a.ETA.At,
		}
		if a.State == queue.Scheduled {
			info.State = asynq.TaskStateScheduled
		}
		return info, nil
	case queue.Duplicate, queue.Conflict:
		if unique {
			return nil, asynq.ErrDuplicateTask
		}
		return nil, asynq.ErrTaskIDConflict
	case queue.UnknownQueue:
		return nil, fmt.Errorf("asynqtarget: %s: %w", job.Queue, queue.ErrUnknownQueue)
	case queue.Invalid, queue.Failed:
		return nil, a.Err
	default:
		return nil, &Refused{a.Outcome, a.RetryAfter}
	}
}

// jobOf converts a task to a job.
func jobOf(task *asynq.Task, options []asynq.Option) (job queue.Job, unique bool, err error) {
	job = queue.Job{
		Queue: asynqtask.DefaultQueue, Payload: task.Payload(), ContentType: "application/octet-stream",
		Headers: map[string]string{asynqtask.HeaderTask: task.Type()},
	}
	for header, value := range task.Headers() {
		job.Headers[header] = value
	}
	for _, o := range options {
		switch o.Type() {
		case asynq.TaskIDOpt:
			job.ID = o.Value().(string)
		case asynq.QueueOpt:
			job.Queue = o.Value().(string)
		case asynq.ProcessAtOpt:
			job.NotBefore = o.Value().(time.Time)
		case asynq.ProcessInOpt:
			job.NotBefore = time.Now().Add(o.Value().(time.Duration))
		case asynq.MaxRetryOpt:
			job.Headers[asynqtask.HeaderMaxRetry] = strconv.Itoa(o.Value().(int))
		case asynq.TimeoutOpt:
			job.Headers[asynqtask.HeaderTimeout] = o.Value().(time.Duration).String()
		case asynq.RetentionOpt:
			job.Headers[asynqtask.HeaderRetention] = o.Value().(time.Duration).String()
		case asynq.DeadlineOpt:
			job.Headers[asynqtask.HeaderDeadline] = o.Value().(time.Time).UTC().Format(time.RFC3339)
		case asynq.GroupOpt:
			job.Headers[asynqtask.HeaderGroup] = o.Value().(string)
		case asynq.UniqueOpt:
			unique = true
		default:
			return job, false, fmt.Errorf("asynqtarget: the option %v is not supported", o)
		}
	}
	switch {
	case unique && job.ID == "":
		sum := sha256.Sum256([]byte(strconv.Itoa(len(task.Type())) + ":" + task.Type() + string(task.Payload())))
		job.ID = "unique-" + hex.EncodeToString(sum[:16])
	case job.ID == "":
		job.ID = queue.NewID()
	}
	job.Normalize()
	return job, unique, nil
}
