package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type lsCmd struct{ refreshed }

// Help is shown below the flags.
func (lsCmd) Help() string {
	return `Columns: SIZE is waiting + scheduled + leased + held, over the capacity; LANES is in how many
lanes jobs wait; DEFERRED are on the overflow besides; OUT/S the measured departures a second over the last 10
to 20 s; OLDEST the age of the job at the head; STATE what the queue does, and why: "quota until 21:00 CET",
say, or "no drainer".

Examples:
  penstock queue ls
  penstock queue ls --watch
  penstock queue ls -o json | jq '.[] | select(.stats.dead > 0) | .name'

With --watch -o json there is one list a line.`
}

func (c *lsCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	return showRefreshed(r, &c.refreshed, api.Queues, queueTable)
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
