package api

import (
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// contentType saves the common ones from being made anew for every job.
func contentType(s []byte) string {
	switch string(s) {
	case queue.DefaultContentType:
		return queue.DefaultContentType
	case octetStream:
		return octetStream
	}
	return string(s)
}

func (e *envelope) cost(job *queue.Job) *Problem {
	v, err := e.dec.ReadValue()
	if err != nil {
		return e.syntax(err)
	}
	n, err := strconv.ParseInt(view(v), 10, 64)
	if err != nil || n < 1 || n > leaky.MaxCost {
		return badField("cost", "is "+shorten(string(v))+", must be a whole number from 1 to "+strconv.Itoa(leaky.MaxCost))
	}
	job.Cost = n
	return nil
}

func (e *envelope) headers(job *queue.Job) *Problem {
	if e.dec.PeekKind() != '{' {
		return e.wrongKind("headers", "an object of strings")
	}
	if _, err := e.dec.ReadToken(); err != nil {
		return e.syntax(err)
	}
	job.Headers = make(map[string]string)
	for e.dec.PeekKind() == '"' {
		raw, err := e.dec.ReadValue()
		if err != nil {
			return e.syntax(err)
		}
		name := text(raw)
		field := "headers." + shorten(name)
		if _, twice := job.Headers[name]; twice {
			return &Problem{Reason: ReasonDuplicateField, Field: field, Detail: "is given twice"}
		}
		if len(job.Headers) == queue.MaxHeaders {
			return badField("headers", "are too many, the limit is "+strconv.Itoa(queue.MaxHeaders))
		}
		value, p := e.bytes(field)
		if p != nil {
			return p
		}
		job.Headers[name] = string(value)
	}
	if _, err := e.dec.ReadToken(); err != nil {
		return e.syntax(err)
	}
	return nil
}

// lane reads the key of a lane. An empty one is refused: who does not know a job's tenant
// would put it where no lane's bounds hold.
func (e *envelope) lane(job *queue.Job) *Problem {
	s, p := e.bytes("lane")
	if p != nil {
		return p
	}
	if len(s) == 0 {
		return badField("lane", "is empty; leave it out for the lane of jobs that name none")
	}
	if err := queue.ValidateLane(view(s)); err != nil {
		return refused(err)
	}
	if string(s) == pull.TurnLane {
		return badField("lane", "is the lane of turns, which jobs cannot have; give another")
	}
	job.Lane = string(s)
	return nil
}

func (e *envelope) priority(job *queue.Job) *Problem {
	v, err := e.dec.ReadValue()
	if err != nil {
		return e.syntax(err)
	}
	n, err := strconv.Atoi(view(v))
	if err != nil || n < 0 || n > queue.MaxPriority {
		return badField(
			"priority", "is "+shorten(string(v))+", must be a whole number from 0 to "+strconv.Itoa(queue.MaxPriority),
		)
	}
	job.Priority = n
	return nil
}

// instant reads one. One without a time zone is refused: it would mean another one on
// every machine.
func (e *envelope) instant(field, whenEmpty string) (time.Time, *Problem) {
	const form = "2026-01-02T15:04:05Z or 2026-01-02T16:04:05+01:00"
	s, p := e.bytes(field)
	if p != nil {
		return time.Time{}, p
	}
	if len(s) == 0 {
		return time.Time{}, badField(field, "is empty; "+whenEmpty)
	}
	var at time.Time
	if at.UnmarshalText(s) != nil {
		if _, err := time.Parse("2006-01-02T15:04:05", view(s)); err == nil {
			return at, badField(field, "is "+shorten(string(s))+", which has no time zone; write one, as in "+form)
		}
		return at, badField(field, "is "+shorten(string(s))+", must be an instant such as "+form)
	}
	if at.IsZero() { // to the engine that is none
		return at, badField(field, "is "+shorten(string(s))+", must be between the years 2000 and 2200")
	}
	return at.UTC(), nil
}

func (e *envelope) overflow(job *queue.Job) *Problem {
	s, p := e.bytes("overflow")
	if p != nil {
		return p
	}
	switch string(s) {
	case queue.Reject:
		job.Overflow = queue.Reject
	case queue.Defer:
		job.Overflow = queue.Defer
	default:
		return badField(
			"overflow",
			"is "+clip.Quote(string(s), maxShown)+", must be reject or defer, or be left out for what the queue says",
		)
	}
	return nil
}
