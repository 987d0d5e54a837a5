package queuecmd

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// State describes what a queue does and why, in local time.
func State(q *wire.Queue) string { return statusText(&q.Status) }

func statusText(s *wire.Status) string {
	return show.Because(s.Here(time.Now())+show.By(s.By, s.ClaimedBy), s.Reason)
}

// Rate returns the present rate of a queue with its burst.
func Rate(q *wire.Queue) string {
	text := q.Rate.String()
	if a := q.Adapted; a != nil {
		text = fmt.Sprintf("%.4g/s", a.PerSecond)
	}
	if q.Burst > 1 {
		text += fmt.Sprintf(" burst %d", q.Burst)
	}
	return text
}

// paceText returns the rate and the interval between two departures.
func paceText(q *wire.Queue) string {
	if q.Rate.Unlimited() {
		return Rate(q)
	}
	rate := q.Rate
	if q.Adapted != nil {
		rate = q.Adapted.Rate
	}
	return fmt.Sprintf("%s (one each %v)", Rate(q), rate.Interval())
}

// adaptText describes the bounds of an adaptive or learned rate and its last change.
func adaptText(q *wire.Queue) string {
	a := q.Adapted
	if a == nil {
		return ""
	}
	text := fmt.Sprintf("from %s to %s, starts at %s", q.Adapt.Floor, q.Adapt.Ceiling, q.Rate)
	if q.Learn != "" {
		text = fmt.Sprintf("at most %s, as the answers allow (%s)", q.Rate, show.Text(q.Learn))
	}
	if len(a.Changes) == 0 {
		return text
	}
	c, did := a.Changes[0], "raised"
	if c.To.PerSecond() < c.From.PerSecond() {
		did = "lowered"
	}
	return show.Because(
		fmt.Sprintf(
			"%s; %s from %.4g/s at %s, %s", text, did, c.From.PerSecond(), c.At.Local().Format(time.DateTime), c.Cause,
		),
		c.Reason,
	)
}

// pauseText describes a pause: until when, by whom and why. It is empty without a pause.
func pauseText(p *queue.Pause) string {
	if p == nil {
		return ""
	}
	text := "paused"
	if !p.Until.IsZero() {
		text += " until " + p.Until.Local().Format(time.DateTime)
	}
	if p.By != "" {
		text += " by " + show.Text(p.By)
	}
	if p.Note != "" {
		text += ", claimed by " + show.Text(p.Note)
	}
	return show.Because(text, p.Reason)
}

// stopText describes a stop by the receiver: an open circuit, an outage or throttling. It is empty without a stop.
func stopText(q *wire.Queue) string {
	switch c, s := q.CircuitState, q.Stop; {
	case c != nil && c.State == "open":
		text := "down"
		if c.NextProbe != nil {
			text += ", probed at " + c.NextProbe.Local().Format(time.DateTime)
		}
		return show.Because(text, c.Reason)
	case s != nil && s.Cause == queue.StopDown:
		return show.Because("down until "+s.Until.Local().Format(time.DateTime), s.Reason)
	case s != nil:
		return show.Because("throttled until "+s.Until.Local().Format(time.DateTime), s.Reason)
	}
	return ""
}

// circuitText describes the circuit of a queue and its settings.
func circuitText(q *wire.Queue) string {
	c := q.Circuit
	if c.Off {
		return "off"
	}
	text := "closed"
	if s := q.CircuitState; s != nil {
		text = s.State
		if s.Opened != nil {
			text += " since " + s.Opened.Local().Format(time.DateTime)
		}
		if s.Failures > 0 {
			text += fmt.Sprintf(", %d failures in a row", s.Failures)
		}
	}
	text += fmt.Sprintf("; opens after %d failures", c.Failures)
	if !q.Pull {
		text += fmt.Sprintf(", %v unanswered is a failure", c.Slow)
	}
	return fmt.Sprintf("%s; probes each %v to %v", text, c.MinProbe, c.MaxProbe)
}

// drainersText returns the number of drainers, or when the last was seen.
func drainersText(d *wire.Drainers, now time.Time) string {
	switch n := len(d.Drainers); {
	case n == 1:
		return "1 drainer"
	case n > 1:
		return fmt.Sprintf("%d drainers", n)
	case d.LastSeen == nil:
		return "no drainer was ever seen"
	}
	return "no drainer, the last was seen " + show.Age(now, d.LastSeen) + " ago"
}
