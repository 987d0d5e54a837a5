package queuecmd

import (
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
