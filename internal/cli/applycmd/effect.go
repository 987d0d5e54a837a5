package applycmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// effect is the effect of a change on the present jobs of a queue. A zero field means no effect of its kind.
type effect struct {
	Backlog int64 `json:"backlog,omitempty"` // waiting and deferred jobs
	// DrainedAt is when the backlog will have left without the change, DrainedThen when it will have left with the
	// change.
	DrainedAt   *time.Time `json:"drained_at,omitempty"`
	DrainedThen *time.Time `json:"drained_then,omitempty"`
	// Never is what keeps the backlog from leaving with the change, as things are.
	Never         string `json:"never,omitempty"`
	Unknown       string `json:"unknown,omitempty"` // why there is no forecast
	AboveCapacity int64  `json:"above_capacity,omitempty"`
	InFlight      int64  `json:"in_flight,omitempty"`
}

// effectOf returns the effect of changes on the jobs of a queue. It also sets the Effect of each change.
func effectOf(
	r *command.Run, api *client.Client, present *wire.Queue, file *queue.Spec, list []changes.Field,
) (*effect, error) {
	e := &effect{}
	for i := range list {
		c, s := &list[i], &present.Stats
		switch c.Name {
		case "rate", "burst":
			if e.Backlog = s.Waiting + s.Deferred; e.Backlog == 0 {
				continue
			}
			if err := e.forecast(r, api, file); err != nil {
				return nil, err
			}
			if file.Rate == present.Rate {
				c.Effect = e.drained(", except for departures saved up while idle")
			} else if c.Name == "rate" {
				c.Effect = e.drained("")
			}
		case "max_bytes":
			if over := s.Bytes - int64(file.MaxBytes); file.MaxBytes > 0 && over > 0 {
				c.Effect = fmt.Sprintf("the queue holds %d bytes more; none are dropped, and it is full until they have left", over)
			}
		case "capacity":
			if e.AboveCapacity = max(0, s.Size()-file.Capacity); e.AboveCapacity > 0 {
				c.Effect = fmt.Sprintf(
					"the queue has %d jobs more than that; none are dropped, and it is full until they have left", e.AboveCapacity,
				)
			}
		case "max_in_flight":
			if e.InFlight = s.Leased; e.InFlight == 0 {
				continue
			}
			c.Effect = fmt.Sprintf("%d in flight now", e.InFlight)
			if bound := file.MaxInFlight; bound > 0 && e.InFlight >= bound {
				c.Effect += fmt.Sprintf("; nothing leaves until there are fewer than %d", bound)
			}
		}
	}
	if *e == (effect{}) {
		return nil, nil
	}
	return e, nil
}

// forecast asks the server once when the backlog is drained, at the present rate and at that of the file. It ignores a
// changed burst, since a backlog leaves at the rate in any case.
func (e *effect) forecast(r *command.Run, api *client.Client, file *queue.Spec) error {
	if e.DrainedAt != nil || e.Never != "" || e.Unknown != "" {
		return nil
	}
	rate := file.Rate.String()
	q, err := api.Quote(r.Ctx, file.Name, wire.QuoteRequest{Rate: &rate})
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Status == 400 {
		e.Unknown = refused.Error() // the new rate does not fit the present burst
		return nil
	}
	if err != nil {
		return err
	}
	e.DrainedAt = q.Now.DrainedAt
	if q.Then != nil {
		e.DrainedThen, e.Never = q.Then.DrainedAt, q.Then.Never
	}
	return nil
}

// drained describes when the backlog will be drained. It is empty if the backlog has left meanwhile. If the time does
// not change, it adds but, an exception.
func (e *effect) drained(but string) string {
	if e.Unknown != "" {
		return "no forecast for its jobs: " + show.Text(e.Unknown)
	}
	if e.Never != "" {
		return "as things are, no job leaves: each waits for " + cause.Cause(e.Never).Text()
	}
	if e.DrainedAt == nil || e.DrainedThen == nil {
		return ""
	}
	before, then := clock(e.DrainedAt), clock(e.DrainedThen)
	text := fmt.Sprintf("its %s will be drained at %s", show.Jobs(e.Backlog), then)
	if before == then {
		text += ", as before" + but
	} else {
		text += " instead of " + before
	}
	return text
}

// clock returns an instant to the second, without the day if it is today.
func clock(t *time.Time) string {
	at := t.Local().Round(time.Second)
	if at.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
