package survey_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// fill lets jobs wait in a queue of 2/s.
func fill(i *queue.Info, jobs, lanes int64) *queue.Info {
	i.Waiting, i.Ahead, i.Lanes = jobs, jobs, lanes
	return i
}

func TestOutlook(t *testing.T) {
	r := newRig(t, survey.Options{})
	fill(r.add("plain"), 9, 1)
	r.add("empty")
	fill(r.add("paused"), 5, 1).Pause = queue.Pause{Since: r.now}
	laned := fill(r.add("laned"), 21, 2)
	laned.Spec.Lanes.Rate = leaky.PerSecond(1)
	deferring := fill(r.add("deferring"), 4, 1)
	deferring.Spec.Capacity, deferring.Spec.Overflow, deferring.Spec.Deferred.MaxJobs = 4, queue.Defer, 100
	now := r.after(0)
	for name, want := range map[string]struct {
		finish, delay time.Duration // -1 is never
		why           cause.Cause
	}{
		"plain": {finish: 4 * time.Second, delay: 4500 * time.Millisecond}, "empty": {},
		"paused": {-1, -1, cause.Paused}, "laned": {finish: 20 * time.Second, delay: 500 * time.Millisecond},
		"deferring": {finish: 1500 * time.Millisecond, delay: 2 * time.Second},
	} {
		o := now.Row(name).Outlook
		if o == nil {
			t.Errorf("%s has no outlook", name)
			continue
		}
		finish, delay := o.Finish.Sub(r.now), time.Duration(-1)
		if o.Never() {
			finish = -1
		}
		if d, ok := o.Delay(); ok {
			delay = d
		}
		if finish != want.finish || delay != want.delay || o.Why != want.why {
			t.Errorf("%s: %v, %v, %q, want %+v", name, finish, delay, o.Why, want)
		}
	}
	if !slices.Equal(r.lineups, []string{"laned"}) {
		t.Errorf("%q were read once more, want only the queue with lanes", r.lineups)
	}
	sum := now.Summary(survey.Query{})
	if sum.Never != 1 || sum.Finish.Sub(r.now) != 20*time.Second || sum.Delay != 4500*time.Millisecond {
		t.Errorf("in sum: %d never, %v, %v", sum.Never, sum.Finish.Sub(r.now), sum.Delay)
	}
	rows, _ := now.Select(survey.Query{Sort: "finish", Descending: true, Limit: 2})
	if rows[0].Name != "paused" || rows[1].Name != "laned" {
		t.Errorf("sorted by finish: %s, %s", rows[0].Name, rows[1].Name)
	}
	f, _, missing := now.Forecast(nil)
	if last := f.Bends[len(f.Bends)-1]; missing != 0 || f.Bends[0].Remaining != 39 || last.Remaining != 5 ||
		!f.Never() || last.By != cause.Paused {
		t.Errorf("%d missing, the sum is %+v", missing, f)
	}
	f, _, _ = now.Forecast(func(name string) bool { return name == "plain" })
	if f.Finish.Sub(r.now) != 4*time.Second || f.Bends[0].Remaining != 9 {
		t.Errorf("of one queue: %+v", f)
	}
}

// Queues that must be read once more take turns, and a queue keeps its outlook until then.
func TestOutlooksTakeTurns(t *testing.T) {
	r := newRig(t, survey.Options{})
	const queues = 50
	for n := range queues {
		fill(r.add(fmt.Sprintf("q%02d", n)), 10, 1000) // six calls each
	}
	for step := 1; step <= 9; step++ {
		before := len(r.lineups)
		snapshot := r.after(survey.Step)
		if n := len(r.lineups) - before; n == 0 || n > 7 {
			t.Fatalf("step %d read %d queues once more", step, n)
		}
		known := 0
		for _, row := range snapshot.Rows() {
			if row.Outlook != nil {
				known++
			}
		}
		if want := min(queues, len(r.lineups)); known != want {
			t.Errorf("after step %d %d queues have an outlook, want %d", step, known, want)
		}
	}
	times := map[string]int{}
	for _, name := range r.lineups {
		times[name]++
	}
	least, most := math.MaxInt, 0
	for _, n := range times {
		least, most = min(least, n), max(most, n)
	}
	if len(times) != queues || most-least > 1 {
		t.Errorf("%d queues were read %d to %d times", len(times), least, most)
	}
	snapshot := r.Latest()
	r.err = queue.ErrUnavailable
	r.now = r.now.Add(survey.Step)
	if err := r.Read(t.Context()); err == nil || r.Latest() != snapshot {
		t.Error("a reading without answers replaced the snapshot")
	}
}
