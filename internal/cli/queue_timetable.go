package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

type timetableCmd struct {
	Name string        `arg:"" help:"Name of the queue."`
	For  time.Duration `default:"60s" placeholder:"DURATION"`
	refreshed
}

// LongHelp is the help that is too long for the tags.
func (timetableCmd) LongHelp() map[string]string {
	return map[string]string{
		"for": "For how long from now, up to 10m (default ${default}).",
	}
}

// Help is shown below the flags.
func (timetableCmd) Help() string {
	return `Each departure to come, as it would be if nobody appended anything: at most 1,000. EXACT is yes if the
departure is granted already, or nothing but the pace decides it; otherwise it says what makes it an estimate.

Examples:
  penstock queue timetable email
  penstock queue timetable email --for 5m --watch
  penstock queue timetable email -o json | jq '.departures[] | select(.exact) | .at'`
}

func (c *timetableCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	return showRefreshed(r, &c.refreshed, func(ctx context.Context) (wire.Timetable, error) {
		return api.Timetable(ctx, c.Name, c.For)
	}, timetableText)
}

// timetableText is the departures, why the queue stands still if it does, and a last line that says what is exact.
// Instants are relative to the clock of the store.
func timetableText(v wire.Timetable, _ time.Time) string {
	t := table{header: []string{"IN", "AT", "ID", "LANE", "ATTEMPT", "EXACT"}, right: map[int]bool{0: true, 4: true}}
	exact := 0
	for n := range v.Departures {
		d, sure := &v.Departures[n], "yes"
		if d.Exact {
			exact++
		} else {
			sure = "no: " + plain(string(d.Why))
		}
		t.add(short(d.At.Sub(v.From)), instant(&d.At), plain(d.ID), plain(d.Lane), strconv.Itoa(d.Attempt), sure)
	}
	var b strings.Builder
	if len(v.Departures) > 0 {
		b.WriteString(t.String())
	}
	if v.More {
		b.WriteString("and more\n")
	}
	b.WriteString(lanesText(&v))
	if v.Standstill != nil {
		b.WriteString(standstillText(&v) + "\n")
	}
	n := len(v.Departures)
	count := "1 departure"
	if n != 1 {
		count = strconv.Itoa(n) + " departures"
	}
	fmt.Fprintf(&b, "%s by %s", count, instant(&v.Until))
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

// lanesText are the lanes of the jobs that wait, if there are several.
func lanesText(v *wire.Timetable) string {
	if len(v.Lanes) < 2 {
		return ""
	}
	t := table{header: []string{"LANE", "WAITING", "LEAVES"}, right: map[int]bool{1: true, 2: true}}
	for _, l := range v.Lanes {
		t.add(plain(cmp.Or(l.Lane, "-")), strconv.FormatInt(l.Waiting, 10), strconv.FormatInt(l.Leaves, 10))
	}
	text := "\n" + t.String()
	if v.LanesMore {
		text += "and others that were not counted\n"
	}
	return text + "\n"
}

func standstillText(v *wire.Timetable) string {
	s, still := &v.Status, v.Standstill
	text := because(s.Here(time.Now())+byWhom(s.By, s.ClaimedBy), s.Reason)
	if still.Since != nil {
		text += "; since " + instant(still.Since)
	}
	return "stands still: " + text + "; ends when " + plain(still.Ends)
}
