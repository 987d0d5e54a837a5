package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// effect is what a change means for what a queue holds now. What it means nothing for is absent.
type effect struct {
	Backlog int64 `json:"backlog,omitempty"` // jobs that wait or are deferred
	// DrainedAt is when they have left as things are, DrainedThen after the change.
	DrainedAt   *time.Time `json:"drained_at,omitempty"`
	DrainedThen *time.Time `json:"drained_then,omitempty"`
	// IfResumed: the queue is paused without an end, and these are the instants if it goes on now.
	IfResumed     bool   `json:"if_resumed_now,omitempty"`
	Unknown       string `json:"unknown,omitempty"` // why there is no forecast
	AboveCapacity int64  `json:"above_capacity,omitempty"`
	InFlight      int64  `json:"in_flight,omitempty"`
}

// effectOf works out what changes mean for the backlog of a queue, and notes it with each of them. Nothing
// is changed.
func effectOf(r *run, api *client.Client, present *wire.Queue, file *queue.Spec, list []change) (*effect, error) {
	e := &effect{}
	for i := range list {
		c, s := &list[i], &present.Stats
		switch c.Field {
		case "rate", "burst":
			if e.Backlog = s.Waiting + s.Deferred; e.Backlog == 0 {
				continue
			}
			if err := e.forecast(r, api, file); err != nil {
				return nil, err
			}
			if file.Rate == present.Rate {
				c.effect = e.drained(", but for what idleness has saved up")
			} else if c.Field == "rate" {
				c.effect = e.drained("")
			}
		case "max_bytes":
			if over := s.Bytes - int64(file.MaxBytes); file.MaxBytes > 0 && over > 0 {
				c.effect = fmt.Sprintf(
					"%d bytes more than that are held; nothing is dropped, and there is no room until they have left", over,
				)
			}
		case "capacity":
			if e.AboveCapacity = max(0, s.Size()-file.Capacity); e.AboveCapacity > 0 {
				c.effect = fmt.Sprintf(
					"%d more than that are held; nothing is dropped, and there is no room until they have left", e.AboveCapacity,
				)
			}
		case "max_in_flight":
			if e.InFlight = s.Leased; e.InFlight == 0 {
				continue
			}
			c.effect = fmt.Sprintf("%d in flight now", e.InFlight)
			if bound := file.MaxInFlight; bound > 0 && e.InFlight >= bound {
				c.effect += fmt.Sprintf("; nothing leaves until fewer than %d are", bound)
			}
		}
	}
	if *e == (effect{}) {
		return nil, nil
	}
	return e, nil
}

// forecast asks once when the backlog is drained, now and at the file's rate. The burst is taken as it is:
// another one changes nothing for a backlog that leaves at the rate.
func (e *effect) forecast(r *run, api *client.Client, file *queue.Spec) error {
	if e.DrainedAt != nil || e.Unknown != "" {
		return nil
	}
	rate := file.Rate.String()
	q, err := api.Quote(r.ctx, file.Name, wire.QuoteRequest{Rate: &rate})
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Status == 400 {
		e.Unknown = refused.Error() // the rate does not go with the present burst, which changes too
		return nil
	}
	if err != nil {
		return err
	}
	e.IfResumed, e.DrainedAt = q.Paused && q.PausedUntil == nil, q.Now.DrainedAt
	if q.Then != nil {
		e.DrainedThen = q.Then.DrainedAt
	}
	return nil
}

// drained says what comes of the backlog; nothing if it has left meanwhile. What qualifies that it is
// drained as before comes behind it.
func (e *effect) drained(but string) string {
	if e.Unknown != "" {
		return "when the backlog is drained cannot be told: " + plain(e.Unknown)
	}
	if e.DrainedAt == nil || e.DrainedThen == nil {
		return ""
	}
	before, then := clock(e.DrainedAt), clock(e.DrainedThen)
	text := fmt.Sprintf("the backlog, %s, is drained at %s", plural(e.Backlog), then)
	if before == then {
		text += " as before" + but
	} else {
		text += " instead of " + before
	}
	if e.IfResumed {
		text += ", if it is resumed now"
	}
	return text
}

// clock is an instant to the second, without the day if that is today.
func clock(t *time.Time) string {
	at := t.Local().Round(time.Second)
	if at.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
