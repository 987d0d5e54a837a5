// Package asynqtask converts a job to an asynq task, by its queue's target and the job's headers. It is separate from
// package asynqtarget so that programs that only check targets and jobs, such as an ingress, do not link asynq.
package asynqtask

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// Headers by which a job overrides the target's settings of its task. An asynqtarget.Client sets them.
const (
	HeaderTask      = "Asynq-Task"      // the task's type
	HeaderMaxRetry  = "Asynq-Max-Retry" // a number
	HeaderTimeout   = "Asynq-Timeout"   // a duration such as 30s
	HeaderDeadline  = "Asynq-Deadline"  // an instant, RFC 3339
	HeaderRetention = "Asynq-Retention" // a duration
	HeaderGroup     = "Asynq-Group"

	ownHeaders = "asynq-"
)

// Limits of a Target.
const (
	DefaultQueue = "default"
	MaxNameBytes = 200
	maxMaxRetry  = 1_000_000
	maxSpan      = 10 * 365 * 24 * time.Hour
)

// Target is the setting of an asynq target.
type Target struct {
	// Task is the type of all tasks. If it is empty, each job names its own in the header HeaderTask, which must match
	// a pattern in Tasks, such as email:*.
	Task  string           `json:"task,omitempty"`
	Tasks setting.Patterns `json:"tasks,omitempty"`
	// Queue is the asynq queue.
	Queue string `json:"queue,omitempty"`
	// MaxRetry, Timeout and Retention are asynq's options; if absent, asynq's defaults apply.
	MaxRetry  *int          `json:"max_retry,omitempty"`
	Timeout   unit.Duration `json:"timeout,omitempty"`   // of the task's handler
	Retention unit.Duration `json:"retention,omitempty"` // how long asynq keeps the processed task
}

var _ setting.Setting = (*Target)(nil)

// Default returns a setting with its defaults.
func Default() *Target { return &Target{Queue: DefaultQueue} }

// Check implements setting.Setting.
func (t *Target) Check(at string) error {
	at += "."
	if err := cmp.Or(secrets.None(at+"task", t.Task), secrets.None(at+"queue", t.Queue)); err != nil {
		return err
	}
	if t.Task != "" && !name(t.Task) {
		return setting.Error(
			at+"task", t.Task,
			"must be the type of a task, such as email:send, of at most 200 printable characters without spaces",
		)
	}
	switch {
	case t.Task != "" && t.Tasks != nil:
		return setting.Error(
			at+"tasks", "", "are the types that jobs may choose from, but task leaves no choice; give only one of the two",
		)
	case t.Task == "" && len(t.Tasks) == 0:
		return setting.Error(
			at+"task", "",
			"is missing; give the type of all tasks, such as email:send, or in tasks those that jobs may name, such as "+
				"[\"email:*\"]",
		)
	}
	if err := t.Tasks.Check(at+"tasks", func(pattern string) string {
		if name(pattern) {
			return ""
		}
		return "must be the type of a task in which * stands for anything, such as email:*"
	}); err != nil {
		return err
	}
	if !name(t.Queue) {
		return setting.Error(
			at+"queue", t.Queue, "must be an asynq queue such as default, of at most 200 printable characters without spaces",
		)
	}
	if t.MaxRetry != nil && (*t.MaxRetry < 0 || *t.MaxRetry > maxMaxRetry) {
		return setting.Error(at+"max_retry", strconv.Itoa(*t.MaxRetry), "must be from 0 to "+strconv.Itoa(maxMaxRetry))
	}
	for field, d := range map[string]unit.Duration{"timeout": t.Timeout, "retention": t.Retention} {
		if d.D() < 0 || d.D() > maxSpan || d != 0 && d.D() < time.Second {
			return setting.Error(at+field, d.String(), "must be a second or more; leave it out for asynq's default")
		}
	}
	return nil
}

// Accept implements setting.Setting: the job's headers must be options that asynq supports.
func (t *Target) Accept(job *queue.Job) error {
	_, err := t.Plan(job)
	return err
}

// OnUnknown implements setting.Setting. asynq recognizes the task's ID.
func (t *Target) OnUnknown() string { return queue.UnknownRetry }

// Plan has the type and options of a job's task. Zero fields mean asynq's defaults.
type Plan struct {
	Task      string // its type
	Headers   map[string]string
	MaxRetry  *int
	Timeout   time.Duration
	Deadline  time.Time
	Retention time.Duration
	Group     string
}

// Plan returns the target's settings, overridden by the job's headers. Its error is an *invalid.Error.
func (t *Target) Plan(job *queue.Job) (Plan, error) {
	p := Plan{
		Task: t.Task, MaxRetry: t.MaxRetry, Timeout: t.Timeout.D(), Retention: t.Retention.D(),
		Headers: map[string]string{},
	}
	for header, value := range job.Headers {
		lower := strings.ToLower(header)
		if !strings.HasPrefix(lower, ownHeaders) {
			p.Headers[header] = value
			continue
		}
		if err := p.read(lower, value, t); err != nil {
			return Plan{}, setting.Error("headers."+header, value, err.Error())
		}
	}
	if p.Task == "" {
		return Plan{}, setting.Error(
			"headers."+HeaderTask, "", "is missing: the queue's target names no task, so each job says of what type its task is",
		)
	}
	return p, nil
}

type wrong string

func (w wrong) Error() string { return string(w) }

func (p *Plan) read(header, value string, t *Target) (err error) {
	switch header {
	case strings.ToLower(HeaderTask):
		switch {
		case t.Task != "" && value != t.Task:
			return wrong("must be " + t.Task + ", the one type of task that the queue's target makes")
		case !name(value):
			return wrong("must be the type of a task")
		case t.Task == "" && !t.Tasks.Match(value):
			return wrong("is none of the types of tasks that the queue's target lets jobs choose from (deliver.asynq.tasks)")
		}
		p.Task = value
	case strings.ToLower(HeaderMaxRetry):
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > maxMaxRetry {
			return wrong("must be a number from 0 to " + strconv.Itoa(maxMaxRetry))
		}
		p.MaxRetry = &n
	case strings.ToLower(HeaderTimeout):
		p.Timeout, err = span(value)
	case strings.ToLower(HeaderRetention):
		p.Retention, err = span(value)
	case strings.ToLower(HeaderDeadline):
		if p.Deadline, err = time.Parse(time.RFC3339, value); err != nil {
			return wrong("must be an instant such as 2026-01-02T15:04:05Z")
		}
	case strings.ToLower(HeaderGroup):
		if !name(value) {
			return wrong("must be a group's name")
		}
		p.Group = value
	default:
		return wrong("is none that says how a job becomes a task")
	}
	return err
}

func span(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > maxSpan || d != 0 && d < time.Second {
		return 0, wrong("must be a duration of a second or more, such as 30s")
	}
	return d, nil
}

func name(s string) bool {
	return s != "" && len(s) <= MaxNameBytes && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
