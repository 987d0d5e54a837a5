package cli

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// heldUp says what the receiver of a queue has put it off by; nothing of a queue that goes on.
func heldUp(q *wire.Queue) string {
	switch c, s := q.CircuitState, q.Stop; {
	case c != nil && c.State == "open":
		text := "down"
		if c.NextProbe != nil {
			text += ", probed at " + c.NextProbe.Local().Format(time.DateTime)
		}
		return because(text, c.Reason)
	case s != nil && s.Cause == queue.StopDown:
		return because("down until "+s.Until.Local().Format(time.DateTime), s.Reason)
	case s != nil:
		return because("throttled until "+s.Until.Local().Format(time.DateTime), s.Reason)
	}
	return ""
}

func because(text, reason string) string {
	if reason != "" {
		text += ": " + plain(reason)
	}
	return text
}

// circuitOf is how a queue's target is watched, and how it is.
func circuitOf(q *wire.Queue) string {
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
