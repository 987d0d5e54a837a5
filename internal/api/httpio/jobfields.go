package httpio

import (
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// contentType converts a content type. The common ones allocate nothing.
func contentType(s []byte) string {
	switch string(s) {
	case queue.DefaultContentType:
		return queue.DefaultContentType
	case octetStream:
		return octetStream
	}
	return string(s)
}

func (j *JobReader) cost(job *queue.Job) *Problem {
	v, err := j.dec.ReadValue()
	if err != nil {
		return j.syntax(err)
	}
	n, err := strconv.ParseInt(view(v), 10, 64)
	if err != nil || n < 1 || n > leaky.MaxCost {
		return BadField("cost", "is "+Shorten(string(v))+", must be a whole number from 1 to "+strconv.Itoa(leaky.MaxCost))
	}
	job.Cost = n
	return nil
}

// costs reads the costs of a job by unit.
func (j *JobReader) costs(job *queue.Job) *Problem {
	if j.dec.PeekKind() != '{' {
		return j.wrongKind("costs", "an object of whole numbers by unit")
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return j.syntax(err)
	}
	job.Costs = make(map[string]int64)
	for j.dec.PeekKind() == '"' {
		raw, err := j.dec.ReadValue()
		if err != nil {
			return j.syntax(err)
		}
		unit := text(raw)
		field := "costs." + Shorten(unit)
		if _, twice := job.Costs[unit]; twice {
			return Duplicate(field)
		}
		if len(job.Costs) == queue.MaxCosts {
			return BadField("costs", "name too many units, the limit is "+strconv.Itoa(queue.MaxCosts))
		}
		v, err := j.dec.ReadValue()
		if err != nil {
			return j.syntax(err)
		}
		n, err := strconv.ParseInt(view(v), 10, 64)
		if err != nil || n < 0 || n > queue.MaxUnitCost {
			return BadField(field, "is "+Shorten(string(v))+", must be a whole number from 0 to "+
				strconv.Itoa(queue.MaxUnitCost))
		}
		job.Costs[unit] = n
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return j.syntax(err)
	}
	return nil
}

func (j *JobReader) headers(job *queue.Job) *Problem {
	if j.dec.PeekKind() != '{' {
		return j.wrongKind("headers", "an object of strings")
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return j.syntax(err)
	}
	job.Headers = make(map[string]string)
	for j.dec.PeekKind() == '"' {
		raw, err := j.dec.ReadValue()
		if err != nil {
			return j.syntax(err)
		}
		name := text(raw)
		field := "headers." + Shorten(name)
		if _, twice := job.Headers[name]; twice {
			return Duplicate(field)
		}
		if len(job.Headers) == queue.MaxHeaders {
			return BadField("headers", "are too many, the limit is "+strconv.Itoa(queue.MaxHeaders))
		}
		value, p := j.bytes(field)
		if p != nil {
			return p
		}
		job.Headers[name] = string(value)
	}
	if _, err := j.dec.ReadToken(); err != nil {
		return j.syntax(err)
	}
	return nil
}

// lane reads the key of a lane. An empty key is refused: a sender that does not know the job's tenant would put the job
// into the lane without limits.
func (j *JobReader) lane(job *queue.Job) *Problem {
	s, p := j.bytes("lane")
	if p != nil {
		return p
	}
	if len(s) == 0 {
		return BadField("lane", "is empty; omit it for the lane of jobs without a key")
	}
	if err := queue.ValidateLane(view(s)); err != nil {
		return ProblemOf(err)
	}
	if string(s) == pull.TurnLane {
		return BadField("lane", "is reserved for turns; choose another")
	}
	job.Lane = string(s)
	return nil
}

// batch reads the label of a batch.
func (j *JobReader) batch(job *queue.Job) *Problem {
	s, p := j.bytes("batch")
	if p != nil {
		return p
	}
	if err := queue.ValidateBatch(view(s)); err != nil {
		return ProblemOf(err)
	}
	job.Batch = string(s)
	return nil
}

func (j *JobReader) priority(job *queue.Job) *Problem {
	v, err := j.dec.ReadValue()
	if err != nil {
		return j.syntax(err)
	}
	n, err := strconv.Atoi(view(v))
	if err != nil || n < 0 || n > queue.MaxPriority {
		return BadField(
			"priority", "is "+Shorten(string(v))+", must be a whole number from 0 to "+strconv.Itoa(queue.MaxPriority),
		)
	}
	job.Priority = n
	return nil
}

// instant reads an instant. It must have a time zone, or it would mean another instant on every machine.
func (j *JobReader) instant(field, whenEmpty string) (time.Time, *Problem) {
	const form = "2026-01-02T15:04:05Z or 2026-01-02T16:04:05+01:00"
	s, p := j.bytes(field)
	if p != nil {
		return time.Time{}, p
	}
	if len(s) == 0 {
		return time.Time{}, BadField(field, "is empty; "+whenEmpty)
	}
	var at time.Time
	if at.UnmarshalText(s) != nil {
		if _, err := time.Parse("2006-01-02T15:04:05", view(s)); err == nil {
			return at, BadField(field, "is "+Shorten(string(s))+", which has no time zone; add one, as in "+form)
		}
		return at, BadField(field, "is "+Shorten(string(s))+", must be an instant such as "+form)
	}
	if at.IsZero() { // the engine takes zero for none
		return at, BadField(field, "is "+Shorten(string(s))+", must be between the years 2000 and 2200")
	}
	return at.UTC(), nil
}

func (j *JobReader) overflow(job *queue.Job) *Problem {
	s, p := j.bytes("overflow")
	if p != nil {
		return p
	}
	switch string(s) {
	case queue.Reject:
		job.Overflow = queue.Reject
	case queue.Defer:
		job.Overflow = queue.Defer
	default:
		return BadField(
			"overflow",
			"is "+clip.Quote(string(s), MaxShown)+", must be reject or defer; omit it for the queue's setting",
		)
	}
	return nil
}
