package prove

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// TestShape checks that the children and lanes of a run, with their rates, are known in advance.
func TestShape(t *testing.T) {
	o := Options{Rate: leaky.PerSecond(100), Children: 2, Lanes: 2, Quota: queue.Quota{Max: 3000, Per: "m"}}
	s, err := newLayout(&o, "p", "http://receiver")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, spec := range s.specs {
		got = append(got, spec.Name+" "+spec.Rate.String())
		if err := spec.Validate(); err != nil {
			t.Error(err)
		}
		if (len(spec.Limits) > 0) != (spec.Name == "p") {
			t.Errorf("%s has the limits %v", spec.Name, spec.Limits)
		}
	}
	for _, l := range s.levels {
		got = append(got, l.kind+" "+l.name+" "+l.rate.String())
	}
	want := []string{
		"p 100/s", "p.c1 100/s", "p.c2 25/s", // the second has half of its half
		"queue p.c1 100/s", "lane c1/lane-1 100/s", "lane c1/lane-2 25/s", "queue p.c2 25/s", "lane c2/lane-1 25/s",
		"lane c2/lane-2 375/m",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(s.feeds) != 2 || len(s.feeds[0].lanes) != 2 {
		t.Errorf("%d feeds", len(s.feeds))
	}
}

// TestIndependentQueues checks that each queue is judged by its rate, and all together by the sum of the rates.
func TestIndependentQueues(t *testing.T) {
	o := Options{Rate: leaky.PerSecond(50), Slack: 5 * ms, Delta: 5 * ms, Queues: 2, Faults: NoFaults}
	s, err := newLayout(&o, "p", "http://receiver")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.specs) != 2 || len(s.feeds) != 2 || s.levels[1].name != "p-2" || s.levels[1].rate != o.Rate {
		t.Fatalf("%+v", s)
	}
	for name, tt := range map[string]struct {
		second int // one job in this many belongs to the second queue
		broken string
	}{
		"in turn":          {2, ""},
		"one has too much": {4, "the window law of the queue p-1"},
	} {
		ids, arrivals := perfect(200)
		b := newAcceptedJobs()
		for i, id := range ids {
			b.accept(id, flow{[]string{"p-1", "p-2"}[max(0, i%tt.second-tt.second+2)], ""})
		}
		r := Report{Faults: NoFaults, ended: time.Minute}
		judged(t, &r, o, s.levels, b, arrivals)
		if said := strings.Join(r.Broken, "; "); r.Held != (tt.broken == "") || !strings.Contains(said, tt.broken) ||
			!r.Law.Held {
			t.Errorf("%s: held %v: %s", name, r.Held, said)
		}
	}
}

// inTurn returns a run of n jobs of two children with two lanes each, whose jobs leave in turn, at 100/s.
func inTurn(n int) (*acceptedJobs, []receiver.Arrival) {
	ids, arrivals := perfect(n)
	b := newAcceptedJobs()
	for i, id := range ids {
		b.accept(id, flow{[]string{"p.c1", "p.c2"}[i%2], []string{"x", "y"}[i/2%2]})
	}
	return b, arrivals
}

func TestVerdictOfLevels(t *testing.T) {
	levels := func(queueRate, laneRate int64) []level {
		return []level{
			{"queue", "p.c1", leaky.PerSecond(queueRate), func(f flow) bool { return f.queue == "p.c1" }},
			{"lane", "c1/y", leaky.PerSecond(laneRate), func(f flow) bool { return f == flow{"p.c1", "y"} }},
		}
	}
	for _, tt := range []struct {
		name   string
		levels []level
		broken string
	}{
		{"each within its own", levels(50, 25), ""},
		{"the child too fast", levels(40, 25), "the window law of the queue p.c1"},
		{"the lane too fast", levels(50, 20), "the window law of the lane c1/y"},
		{
			"no job of a lane arrived",
			[]level{{"lane", "c1/z", leaky.PerSecond(1), func(f flow) bool { return f.lane == "z" }}},
			"proves nothing about it",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, arrivals := inTurn(200)
			r := Report{Faults: NoFaults, ended: time.Minute}
			judged(
				t, &r, Options{Rate: leaky.PerSecond(100), Slack: 5 * ms, Delta: 5 * ms, Faults: NoFaults}, tt.levels, b, arrivals,
			)
			said := strings.Join(r.Broken, "; ")
			if r.Held != (tt.broken == "") || !strings.Contains(said, tt.broken) || tt.broken != "" && len(r.Broken) != 1 {
				t.Errorf("held %v: %s; want %q", r.Held, said, tt.broken)
			}
		})
	}
}
