package replay

import (
	"strings"
	"testing"
	"time"
)

// TestTimeline checks that steps grow with the log, nothing is lost, and the depth is kept between requests.
func TestTimeline(t *testing.T) {
	q, err := ReadQueue("rate=1/s capacity=1000")
	if err != nil {
		t.Fatal(err)
	}
	log := strings.Repeat(line("10.0.0.1", "12:00:07"), 100) + line("10.0.0.1", "12:01:30") + line("10.0.0.1", "18:00:00")
	r := replayed(t, Options{Rules: list(t, "gap period=1s"), Queues: []Queue{q}}, log)
	steps := r.Timeline.Steps
	if r.Timeline.Step.D() != time.Minute || len(steps) != 361 || steps[0].Requests != 100 ||
		steps[0].Queues[0].Deepest != 99 || steps[1].Queues[0].Deepest < 46 ||
		steps[0].Rules[0] != (RuleStep{1, 99}) || steps[2].Queues[0].Deepest != 0 || steps[360].Requests != 1 {
		t.Errorf("steps of %v, %d of them: %+v", r.Timeline.Step, len(steps), steps[:3])
	}
	if err := CheckChart("a.HTML"); err != nil {
		t.Error(err)
	}
	picture, err := r.Chart()
	if err != nil || !strings.Contains(string(picture), "gap period=1s: 3 allowed, 99 refused") ||
		!strings.Contains(string(picture), `"requests in 1 min"`) {
		t.Errorf("%v\n%.300s", err, picture)
	}
	if CheckChart("a.svg") == nil {
		t.Error("a.svg is accepted")
	}
}

// TestSpread distributes the requests of one second evenly.
func TestSpread(t *testing.T) {
	log := strings.Repeat(line("10.0.0.1", "12:00:00"), 4) + strings.Repeat(line("10.0.0.1", "12:00:01"), 4)
	for spread, want := range map[bool]int64{false: 6, true: 0} {
		r := replayed(t, Options{Rules: list(t, "meter rate=4/s burst=1"), Spread: spread}, log)
		if got := r.Rules[0].Refused; got != want || !r.WholeSeconds {
			t.Errorf("spread %v: %d refused, want %d", spread, got, want)
		}
	}
}
