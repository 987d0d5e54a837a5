package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type lsCmd struct {
	output
	Watch    bool          `help:"Refresh until Ctrl-C." short:"w"`
	Interval time.Duration `help:"How often --watch refreshes." default:"1s"`
}

// Help is shown below the flags.
func (lsCmd) Help() string {
	return `Columns: SIZE is waiting + scheduled + leased + held, over the capacity; LANES is in how many
lanes jobs wait; DEFERRED are on the overflow besides; OUT/S the measured departures a second over the last 10 to 20 s;
OLDEST the age of the job at the head; STATE what the queue does, and why: "quota until 21:00 CET", say, or "no drainer".

Examples:
  penstock queue ls
  penstock queue ls --watch
  penstock queue ls -o json | jq '.[] | select(.stats.dead > 0) | .name'

With --watch -o json there is one list a line.`
}

func (c *lsCmd) Run(r *run) error {
	if c.Interval < 50*time.Millisecond {
		return usage(fmt.Errorf("--interval %v: must be at least 50ms", c.Interval))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	if !c.Watch {
		queues, err := api.Queues(r.ctx)
		if err != nil {
			return err
		}
		if c.json() {
			return printJSON(r.Out, queues)
		}
		_, err = fmt.Fprint(r.Out, queueTable(queues, time.Now()))
		return err
	}
	return c.watch(r, api)
}

// watch redraws on a terminal and prints one after another elsewhere. A server
// that is gone for a while is said to be, and asked again.
func (c *lsCmd) watch(r *run, api *client.Client) error {
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for first := true; ; first = false {
		queues, err := api.Queues(r.ctx)
		var gone *client.Unreachable
		switch {
		case errors.Is(err, context.Canceled):
			return nil // Ctrl-C is how a watch ends
		case err != nil && (first || !errors.As(err, &gone)):
			return err
		}
		if err := c.draw(r, queues, err); err != nil {
			return err
		}
		select {
		case <-r.ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (c *lsCmd) draw(r *run, queues []wire.Queue, failed error) error {
	if c.json() {
		if failed != nil {
			r.say("penstock: %v", failed)
			return nil
		}
		return printLine(r.Out, queues)
	}
	now := time.Now()
	text := fmt.Sprintf("%s  %s\n\n", now.Format("15:04:05"), r.shown())
	if failed != nil {
		text += plain(failed.Error()) + "\n"
	} else {
		text += queueTable(queues, now)
	}
	if width, height, screen := screenSize(r.Out); screen { // it may have been changed
		// Home, each line cleared to its end, and everything below.
		text = clip(text, width, height)
		text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
	} else {
		text += "\n"
	}
	_, err := fmt.Fprint(r.Out, text)
	return err
}

// clip cuts a text to a terminal, on which lines that wrapped, or too many, would leave the picture before in pieces.
func clip(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(2, height-1); len(lines) > most {
		left := len(lines) - (most - 1)
		lines = append(lines[:most-1], fmt.Sprintf("... %d more lines; a higher terminal shows them", left))
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return strings.Join(lines, "\n") + "\n"
}

func queueTable(queues []wire.Queue, now time.Time) string {
	if len(queues) == 0 {
		return "no queues; \"penstock queue set NAME rate=10/s\" makes one\n"
	}
	t := table{
		header: []string{
			"NAME", "RATE", "SIZE", "WAITING", "LANES", "SCHEDULED", "LEASED", "HELD", "DEFERRED", "DEAD", "OUT/S", "OLDEST",
			"STATE",
		},
		right: map[int]bool{
			1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true, 8: true, 9: true, 10: true, 11: true,
		},
	}
	for i := range queues {
		q := &queues[i]
		t.add(q.Name, rateOf(q), fmt.Sprintf("%d/%d", q.Stats.Size(), q.Capacity), num(q.Stats.Waiting), num(q.Stats.Lanes),
			num(q.Stats.Scheduled),
			num(q.Stats.Leased), num(q.Stats.HeldJobs), num(q.Stats.Deferred), num(q.Stats.Dead),
			fmt.Sprintf("%.1f", q.Stats.Outflow), age(now, q.Stats.OldestWaiting), stateOf(q)+pullOf(q))
	}
	return t.String()
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

func rateOf(q *wire.Queue) string {
	text := q.Rate.String()
	if a := q.Adapted; a != nil {
		text = fmt.Sprintf("%.4g/s", a.PerSecond)
	}
	if q.Burst > 1 {
		text += fmt.Sprintf(" burst %d", q.Burst)
	}
	return text
}

// adaptedOf says within which bounds the rate of a queue follows its receiver, and why it is what it is.
func adaptedOf(q *wire.Queue) string {
	a := q.Adapted
	if a == nil {
		return ""
	}
	text := fmt.Sprintf("from %s to %s, begins with %s", q.Adapt.Floor, q.Adapt.Ceiling, q.Rate)
	if len(a.Changes) == 0 {
		return text
	}
	c, did := a.Changes[0], "raised"
	if c.To.PerSecond() < c.From.PerSecond() {
		did = "lowered"
	}
	return because(
		fmt.Sprintf(
			"%s; %s from %.4g/s at %s, %s", text, did, c.From.PerSecond(), c.At.Local().Format(time.DateTime), c.Cause,
		),
		c.Reason,
	)
}

// pausedOf says until when, by whom and why a queue is paused.
func pausedOf(p *queue.Pause) string {
	text := "paused"
	if !p.Until.IsZero() {
		text += " until " + p.Until.Local().Format(time.DateTime)
	}
	if p.By != "" {
		text += " by " + plain(p.By)
	}
	if p.Note != "" {
		text += ", claimed by " + plain(p.Note)
	}
	if p.Reason != "" {
		text += ": " + plain(p.Reason)
	}
	return text
}

// byWhom says who did something, as was proven and as he said: only the latter where nobody was asked.
func byWhom(by, claimed string) string {
	switch {
	case by == "" && claimed == "":
		return ""
	case by == "":
		return " by " + plain(claimed)
	case claimed == "":
		return " by " + plain(by)
	}
	return " by " + plain(by) + ", claimed by " + plain(claimed)
}

// pullOf tells a pull queue from others.
func pullOf(q *wire.Queue) string {
	if q.Pull {
		return ", pull"
	}
	return ""
}

// stateOf says what the server says that a queue does, and why, in the zone of this machine.
func stateOf(q *wire.Queue) string {
	s := &q.Status
	text := s.Here(time.Now())
	return because(text+byWhom(s.By, s.ClaimedBy), s.Reason)
}
