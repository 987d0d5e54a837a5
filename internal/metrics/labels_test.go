package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/queue"
)

// departures returns the text of penstock_departures_total.
func departures(counts ...any) (text string) {
	text = "# HELP penstock_departures_total Jobs started by this drainer.\n# TYPE penstock_departures_total counter\n"
	for i := 0; i < len(counts); i += 2 {
		text += fmt.Sprintf("penstock_departures_total{queue=%q} %d\n", counts[i], counts[i+1])
	}
	return text
}

// A queue without events for an hour loses its slot and all its series.
func TestInactiveQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		o, err := metrics.NewObserver(reg, 2)
		if err != nil {
			t.Fatal(err)
		}
		// pass advances time with the regular reserves of a drainer.
		pass := func(d time.Duration, busy ...string) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Second) {
				o.Reserved(0, 10, 0, time.Millisecond, nil)
				for _, name := range busy {
					o.Departed(of(name), 0)
				}
			}
		}
		pass(time.Minute)
		for _, name := range []string{"gone", "stays", "late"} {
			o.Departed(of(name), 0)
			o.Returned(of(name), queue.Deliver, time.Millisecond)
			o.Settled(name, queue.Deliver, queue.Delivered)
			o.Settled(name, queue.Deliver, queue.StateNone)
			o.Unsettled(name, queue.Deliver, nil)
			o.Released(name, drain.Late)
			o.Lost(name, 1)
			o.Expired(name)
			o.LeaseLost(name)
		}
		pass(59 * time.Minute)
		o.Lost("stays", 1) // anything that is counted means that it is there
		// A rare event gave "late" series of its own.
		compare(t, reg, departures("_other", 1, "gone", 1, "late", 0, "stays", 1), "penstock_departures_total")
		pass(3 * time.Minute)
		compare(t, reg, departures("_other", 1, "stays", 1), "penstock_departures_total")
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetValue() == "gone" {
						t.Errorf("%s{%v} is still there", f.GetName(), m.GetLabel())
					}
				}
			}
		}
		pass(2*time.Second, "late")
		compare(t, reg, departures("_other", 1, "late", 1, "stays", 1), "penstock_departures_total")

		// However many queues come and go, each has series while it exists.
		for i := range 5 {
			name := fmt.Sprint("day", i)
			if i == 0 {
				pass(2 * time.Hour)
			}
			o.Departed(of(name), 0)
			compare(t, reg, departures("_other", 1, name, 1), "penstock_departures_total")
			pass(2 * time.Hour)
		}
	})
}

// An ingress sees only appends; appends to other queues are enough to free a slot.
func TestQueuesWithoutAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		e, err := metrics.NewEngine(accepting{}, reg, 1)
		if err != nil {
			t.Fatal(err)
		}
		add := func(name string) {
			t.Helper()
			if _, err := e.Append(t.Context(), []queue.Job{job(name, "1", "1")}); err != nil {
				t.Fatal(err)
			}
		}
		const text = `
# HELP penstock_appended_total Jobs accepted, or already present (outcome duplicate).
# TYPE penstock_appended_total counter
penstock_appended_total{outcome="accepted",queue="_other"} 1
penstock_appended_total{outcome="accepted",queue=%[1]q} 1
penstock_appended_total{outcome="duplicate",queue="_other"} 0
penstock_appended_total{outcome="duplicate",queue=%[1]q} 0
`
		add("a")
		add("b")
		compare(t, reg, fmt.Sprintf(text, "a"), "penstock_appended_total")
		time.Sleep(2 * time.Minute)
		add("b")
		time.Sleep(59 * time.Minute)
		add("b")
		time.Sleep(2 * time.Minute)
		add("b")
		compare(t, reg, fmt.Sprintf(strings.Replace(text, `"_other"} 1`, `"_other"} 3`, 1), "b"), "penstock_appended_total")
	})
}

// accepting is a store that accepts everything, with a fixed time.
type accepting struct{ queue.Engine }

func (accepting) Append(_ context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	answers := make([]queue.Appended, len(jobs))
	for i := range answers {
		answers[i].Outcome = queue.Accepted
	}
	return answers, nil
}

// A queue with a rare event gets series, up to the limit, however many queues there are. The rest is counted.
func TestRareEventsGetSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		o, err := metrics.NewObserver(reg, 2)
		if err != nil {
			t.Fatal(err)
		}
		const lost, deliveries = "penstock_lost_slots_total", "penstock_deliveries_total"
		want := func(series map[string]float64) {
			t.Helper()
			page := gathered(t, reg)
			for name, want := range series {
				if got, ok := page[name]; got != want || !ok {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
		}
		for i := range 250 {
			name := fmt.Sprintf("q%03d", i)
			o.Departed(of(name), 0)
			o.Settled(name, queue.Deliver, queue.Delivered)
		}
		o.Settled("q249", queue.Fail, queue.Scheduled)
		o.Settled("q249", queue.Deliver, queue.Delivered)
		o.Lost("q248", 3)
		o.Lost("q247", 1) // for which there is no room
		o.Lost("q000", 1)
		want(map[string]float64{
			deliveries + `{outcome="retry",queue="q249"}`: 1, deliveries + `{outcome="delivered",queue="q249"}`: 1,
			deliveries + `{outcome="dead",queue="q249"}`: 0, deliveries + `{outcome="delivered",queue="_other"}`: 248,
			lost + `{queue="q248"}`: 3, lost + `{queue="_other"}`: 1, lost + `{queue="q000"}`: 1,
		})
		if n, err := testutil.GatherAndCount(reg, "penstock_departures_total"); n != 5 || err != nil {
			t.Errorf("%d queues have series, want two, two more and _other: %v", n, err)
		}

		// An hour after the last rare event, the slot is free, despite other events.
		for end := time.Now().Add(62 * time.Minute); time.Now().Before(end); time.Sleep(time.Minute) {
			o.Reserved(0, 10, 0, time.Millisecond, nil)
			for _, name := range []string{"q000", "q001", "q249"} {
				o.Departed(of(name), 0)
			}
			o.Lost("q248", 1)
		}
		if _, ok := gathered(t, reg)[deliveries+`{outcome="retry",queue="q249"}`]; ok {
			t.Error("q249 has series an hour after its failure")
		}
		o.Lost("q247", 1)
		want(map[string]float64{lost + `{queue="q248"}`: 65, lost + `{queue="q247"}`: 1})
	})
}

// However many queues retry jobs, a queue with a dead job gets series.
func TestRetriesLeaveRoomForRareEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		o, err := metrics.NewObserver(reg, 4)
		if err != nil {
			t.Fatal(err)
		}
		name := func(i int) string { return fmt.Sprintf("q%03d", i) }
		retry := func() {
			for i := range 100 {
				o.Departed(of(name(i)), 0)
				o.Settled(name(i), queue.Fail, queue.Scheduled)
			}
		}
		retry()
		for i := 98; i < 100; i++ {
			o.Settled(name(i), queue.Bury, queue.Dead)
		}
		page := gathered(t, reg)
		for i, own := range map[int]bool{0: true, 3: true, 4: true, 5: true, 6: false, 97: false, 98: true, 99: true} {
			if _, ok := page[`penstock_deliveries_total{outcome="dead",queue="`+name(i)+`"}`]; ok != own {
				t.Errorf("%s has series of its own: %v", name(i), ok)
			}
		}
		// Retries do not keep a slot that a dead job created; they keep one that retries created.
		for end := time.Now().Add(62 * time.Minute); time.Now().Before(end); time.Sleep(time.Minute) {
			o.Reserved(0, 10, 0, time.Millisecond, nil)
			retry()
		}
		page = gathered(t, reg)
		for i, own := range map[int]bool{4: true, 5: true, 98: false, 99: false} {
			if _, ok := page[`penstock_deliveries_total{outcome="dead",queue="`+name(i)+`"}`]; ok != own {
				t.Errorf("an hour later %s has series of its own: %v", name(i), ok)
			}
		}
	})
}
