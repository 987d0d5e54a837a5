package queuecmd

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/quote"
)

func TestTimetableText(t *testing.T) {
	now := time.Now()
	row := wire.Departure{At: now, ID: "a", Attempt: 1, Exact: true}
	exact := wire.Timetable{From: now, Until: now, Departures: []wire.Departure{row}, More: true}
	if got := timetableText(exact, now); !strings.Contains(got, "yes\nand more\n1 departure by ") ||
		!strings.HasSuffix(got, ": exact\n") {
		t.Error(got)
	}
	exact.Departures = append(exact.Departures, wire.Departure{At: now, ID: "b", Attempt: 2, Why: quote.OfScheduled})
	if got := timetableText(exact, now); !strings.HasSuffix(got, ": 1 exact, the others estimates\n") {
		t.Error(got)
	}
}

// Departures at equal intervals are one row; whatever differs begins another one.
func TestTimetableGroupsRows(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.Local)
	var list []wire.Departure
	add := func(n int, every time.Duration, change func(d *wire.Departure)) {
		at := now
		if len(list) > 0 {
			at = list[len(list)-1].At
		}
		for range n {
			at = at.Add(every).Truncate(time.Microsecond)
			d := wire.Departure{At: at, ID: fmt.Sprint("j", len(list)), Attempt: 1, Exact: true}
			change(&d)
			list = append(list, d)
		}
	}
	same := func(*wire.Departure) {}
	add(60, time.Second, same)
	add(2, time.Second, func(d *wire.Departure) { d.Lane = "x" }) // too few
	add(3, time.Second, func(d *wire.Departure) { d.Lane = "y" })
	add(4, time.Second, func(d *wire.Departure) { d.Attempt = 2 })
	add(5, time.Second, func(d *wire.Departure) { d.Exact, d.Why = false, quote.OfScheduled })
	add(30, time.Second/14, same)
	add(8, 0, func(d *wire.Departure) { d.Lane = "z" })
	add(3, 100*time.Second, same)
	v := wire.Timetable{From: now, Until: now.Add(time.Hour), Departures: list}
	text := regexp.MustCompile(` +`).ReplaceAllString(timetableText(v, now), " ")
	for _, want := range []string{
		" j0 1 yes x 60, every 1s, until 07:09:09\n", " j60 x 1 yes\n", " j61 x 1 yes\n",
		" j62 y 1 yes x 3, every 1s,", " j65 2 yes x 4, ", " j69 1 no: scheduled x 5,",
		" j74 1 yes x 30, every 71.428ms, until 07:09:25\n", " j104 z 1 yes x 8, at once,",
		" j112 1 yes x 3, every 1m40s,", "\n115 departures by ", ": 110 exact",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n != 11 {
		t.Errorf("%d lines:\n%s", n, text)
	}
}
