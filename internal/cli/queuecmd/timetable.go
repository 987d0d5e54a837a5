package queuecmd

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type timetableCmd struct {
	Name string        `arg:"" help:"Name of the queue."`
	For  time.Duration `help:"How far ahead to look, up to 10m (default ${default})." default:"60s" placeholder:"DURATION"`
	command.Watched
}

func (timetableCmd) Help() string {
	return `Lists at most 1,000 departures, assuming that no jobs are added. EXACT is yes if the departure is already
granted or depends only on the rate; otherwise it says why the instant is an estimate. Departures of the same
lane and attempt at equal intervals are one row, with the id of the first; -o json lists each.

Examples:
  penstock queue timetable email
  penstock queue timetable email --for 5m --watch
  penstock queue timetable email -o json | jq '.departures[] | select(.exact) | .at'`
}

func (c *timetableCmd) Run(r *command.Run, api *client.Client) error {
	return command.Watch(r, &c.Watched, func(ctx context.Context) (wire.Timetable, error) {
		return api.Timetable(ctx, c.Name, c.For)
	}, timetableText)
}

// timetableText returns the departures, the reason of a standstill, and a summary. Times are relative to the clock of
// the store.
func timetableText(v wire.Timetable, _ time.Time) string {
	t := command.NewTable(">IN", "AT", "ID", "LANE", ">ATTEMPT", "EXACT", "REPEATS")
	exact := 0
	for rest := v.Departures; len(rest) > 0; {
		n := alike(rest)
		d, last := &rest[0], &rest[n-1]
		sure, repeats := "yes", ""
		if d.Exact {
			exact += n
		} else {
			sure = "no: " + string(d.Why)
		}
		if n > 1 {
			repeats = fmt.Sprintf(
				"x %d, %s, until %s", n, everyText(last.At.Sub(d.At)/time.Duration(n-1)), show.Clock(&last.At, d.At),
			)
		}
		t.Row(
			show.Duration(d.At.Sub(v.From)), show.Instant(&d.At), d.ID, d.Lane, strconv.Itoa(d.Attempt), sure, repeats,
		)
		rest = rest[n:]
	}
	var b strings.Builder
	if len(v.Departures) > 0 {
		b.WriteString(t.String())
	}
	if v.More {
		b.WriteString("and more\n")
	}
	b.WriteString(waitingLanesText(&v))
	if v.Standstill != nil {
		b.WriteString(standstillText(&v) + "\n")
	}
	n := len(v.Departures)
	count := "1 departure"
	if n != 1 {
		count = strconv.Itoa(n) + " departures"
	}
	fmt.Fprintf(&b, "%s by %s", count, show.Instant(&v.Until))
	switch {
	case n > 0 && exact == n:
		b.WriteString(": exact\n")
	case exact > 0:
		fmt.Fprintf(&b, ": %d exact, the others estimates\n", exact)
	case n > 0:
		b.WriteString(": estimates\n")
	default:
		b.WriteString("\n")
	}
	return b.String()
}

// leastAlike is the minimum number of departures that become one row.
const leastAlike = 3

// alike returns how many departures at the beginning of a list make one row: they have the same lane, attempt and
// doubt, and follow each other at equal intervals.
func alike(list []wire.Departure) int {
	d := &list[0]
	n := 1
	var every time.Duration
	for ; n < len(list); n++ {
		next := &list[n]
		gap := next.At.Sub(list[n-1].At)
		if n == 1 {
			every = gap
		}
		if next.Lane != d.Lane || next.Attempt != d.Attempt || next.Exact != d.Exact || next.Why != d.Why ||
			(gap-every).Abs() > intervalError(every) {
			break
		}
	}
	if n < leastAlike {
		return 1
	}
	return n
}

// intervalError is by how much equal intervals may differ: at 14/s, no interval is a whole number of microseconds.
func intervalError(every time.Duration) time.Duration {
	return min(time.Millisecond, 2*time.Microsecond+every/1000)
}

// everyText returns the interval of departures.
func everyText(d time.Duration) string {
	switch {
	case d == 0:
		return "at once"
	case d < time.Second:
		return "every " + d.Round(time.Microsecond).String()
	}
	return "every " + d.Round(time.Millisecond).String()
}

// waitingLanesText returns the lanes of the waiting jobs, if there are several.
func waitingLanesText(v *wire.Timetable) string {
	if len(v.Lanes) < 2 {
		return ""
	}
	t := command.NewTable("LANE", ">WAITING", ">LEAVES")
	for _, l := range v.Lanes {
		t.Row(cmp.Or(l.Lane, "-"), strconv.FormatInt(l.Waiting, 10), strconv.FormatInt(l.Leaves, 10))
	}
	text := "\n" + t.String()
	if v.LanesMore {
		text += "and other lanes, not counted\n"
	}
	return text + "\n"
}

func standstillText(v *wire.Timetable) string {
	still := v.Standstill
	text := statusText(&v.Status)
	if still.Since != nil {
		text += "; since " + show.Instant(still.Since)
	}
	return "stands still: " + text + "; ends when " + show.Text(still.Ends)
}
