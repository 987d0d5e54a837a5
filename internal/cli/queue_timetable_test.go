package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
)

func TestTimetable(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(t, ExitRefused, "", "unknown_queue", "queue", "timetable", "email")
	expect(t, ExitDone, "made", "", "queue", "set", "email", "rate=1/5s")
	expect(t, ExitDone, "0 departures by ", "", "queue", "timetable", "email")
	if _, err := store.Append(t.Context(), []queue.Job{
		{Queue: "email", ID: "a", Lane: "x\x1b[2J"}, {Queue: "email", ID: "b"},
	}); err != nil {
		t.Fatal(err)
	}
	r := expect(t, ExitDone, "no: drainer\n", "", "queue", "timetable", "email", "--for", "10s")
	if !strings.HasPrefix(r.out, "  IN  AT") || strings.Contains(r.out, "\x1b") || !strings.Contains(r.out, "\n5.0s  ") ||
		!strings.Contains(r.out, "\n-                 1       1\n") ||
		!strings.Contains(r.out, "\nstands still: no drainer; ends when a drainer asks for jobs\n2 departures by ") {
		t.Error(r.out)
	}
	var v wire.Timetable
	r = expect(t, ExitDone, "{", "", "queue", "timetable", "email", "--for=4s", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || len(v.Departures) != 1 || v.Standstill == nil ||
		v.Departures[0].Why != quote.OfDrainer {
		t.Errorf("%v: %+v", err, v)
	}
	expect(t, ExitDone, "", "", "queue", "pause", "email", "--reason", "why not")
	expect(t, ExitDone, "why not; since 2", "", "queue", "timetable", "email")
	expect(t, ExitRefused, "", "for: is 11m0s, must be", "queue", "timetable", "email", "--for", "11m")
	expect(t, ExitUsage, "", "--interval", "queue", "timetable", "email", "--watch", "--interval=1ms")
	expect(t, ExitUsage, "", "--for", "queue", "timetable", "email", "--for", "1y")

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
