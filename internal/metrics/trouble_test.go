package metrics_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// many is a store that implements only the lists.
type many struct {
	queue.Engine
	infos  []queue.Info // by name
	listed int
}

func newMany(n int) *many {
	m := &many{}
	now := time.Now()
	for i := range n {
		m.infos = append(m.infos, queue.Info{
			Spec: queue.Spec{Name: fmt.Sprintf("q%05d", i), Capacity: 10, Rate: leaky.PerSecond(1)}, Now: now, Asked: now,
		})
	}
	return m
}

func (*many) Space(context.Context) (queue.Space, error) { return queue.Space{}, nil }

func (m *many) Readings(context.Context) (all []queue.Reading, err error) {
	for n := range m.infos {
		all = append(all, readingOf(&m.infos[n]))
	}
	return all, nil
}

func (m *many) GetMany(_ context.Context, names []string) (some []queue.Info, err error) {
	for _, name := range names {
		n, ok := slices.BinarySearchFunc(
			m.infos, name, func(i queue.Info, name string) int { return strings.Compare(i.Spec.Name, name) },
		)
		if ok {
			some = append(some, m.infos[n])
		}
	}
	m.listed = len(names)
	return some, nil
}

func (m *many) Totals(context.Context) (queue.Totals, error) {
	t := queue.Totals{Queues: int64(len(m.infos))}
	for i := range m.infos {
		t.Waiting += m.infos[i].Waiting
	}
	return t, nil
}

func (m *many) Drainers(context.Context) (queue.Drainers, error) {
	return queue.Drainers{Seen: make([]queue.Drainer, 3)}, nil
}

const stateHead = `
# HELP penstock_queue_state 1 for the current state of the queue; other states have no series.
# TYPE penstock_queue_state gauge
`

// Queues that are stalled, full, stopped or paused have series, whatever their names; the others are counted.
func TestTroubled(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	g, err := metrics.NewGauges(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	m := newMany(2300)
	stalled, paused, full := &m.infos[700], &m.infos[1500], &m.infos[2299]
	stalled.Waiting, stalled.Ready, stalled.OldestWaiting = 3, stalled.Now.Add(-time.Minute), stalled.Now.Add(-time.Hour)
	paused.Pause.Since = paused.Now
	full.Waiting, full.Ready, full.Outflow, full.OldestWaiting = 10, full.Now, 1, full.Now
	stalled.Ahead, stalled.Lanes, full.Ahead, full.Lanes = stalled.Waiting, 1, full.Waiting, 1
	look := func() {
		t.Helper()
		if err := refresh(t, g, m); err != nil {
			t.Fatal(err)
		}
		if m.listed > 4 {
			t.Errorf("a look read %d queues whole", m.listed)
		}
	}
	first := `penstock_queue_state{queue="q00000",state="idle"} 1
penstock_queue_state{queue="q00001",state="idle"} 1
`
	look()
	// The limit is that of the first queues: the third is only counted.
	compare(t, reg, stateHead+first+`penstock_queue_state{queue="q00700",state="stalled"} 1
penstock_queue_state{queue="q01500",state="paused"} 1
# HELP penstock_drainers Number of drainers that asked the store for jobs in the last 10 s.
# TYPE penstock_drainers gauge
penstock_drainers 3
`, "penstock_queue_state", "penstock_drainers")
	page := gathered(t, reg)
	for series, want := range map[string]float64{
		`penstock_queues_in_state{state="idle"}`: 2297, `penstock_queues_in_state{state="stalled"}`: 1,
		`penstock_queues_in_state{state="paused"}`:  1,
		`penstock_queues_in_state{state="flowing"}`: 1, `penstock_queues_in_state{state="no_drainer"}`: 0,
		`penstock_queues_unseen{}`: 1, `penstock_queue_capacity{queue="q00700"}`: 10,
		`penstock_jobs{queue="q00700",state="waiting"}`: 3, `penstock_jobs{queue="_other",state="waiting"}`: 10,
	} {
		if got, ok := page[series]; !ok || got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	for name, least := range map[string]float64{"q00700": 3600, "_other": 0} { // which is without those that have series
		if age := page[fmt.Sprintf(`penstock_oldest_waiting_seconds{queue=%q}`, name)]; age < least || age > least+100 {
			t.Errorf("the oldest of %s has waited for %v s", name, age)
		}
	}
	// A queue that recovers loses its slot to the next queue in trouble at the next look.
	paused.Pause = queue.Pause{}
	stalled.Outflow, stalled.OldestWaiting = 1, stalled.Now
	look()
	compare(t, reg, stateHead+first+`penstock_queue_state{queue="q02299",state="flowing"} 1
# HELP penstock_queue_full 1 while the queue has no room for another job.
# TYPE penstock_queue_full gauge
penstock_queue_full{queue="q00000"} 0
penstock_queue_full{queue="q00001"} 0
penstock_queue_full{queue="q02299"} 1
`, "penstock_queue_state", "penstock_queue_full")
	full.Waiting = 9
	look()
	compare(t, reg, stateHead+first, "penstock_queue_state")
	// If only the first queues are left, there is no series for others.
	m.infos = m.infos[:2]
	look()
	compare(t, reg, stateHead+first, "penstock_queue_state")
	if page := gathered(t, reg); page[`penstock_queues_in_state{state="idle"}`] != 2 {
		t.Errorf("%v are idle", page[`penstock_queues_in_state{state="idle"}`])
	} else if _, ok := page[`penstock_oldest_waiting_seconds{queue="_other"}`]; ok {
		t.Error("there are no others, and yet one waits")
	}
}

// An urgent queue gets series, however many less urgent queues had series before.
func TestUrgentFirst(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	g, err := metrics.NewGauges(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	m := newMany(1500)
	for i := 2; i < 1500; i++ {
		m.infos[i].Pause.Since = m.infos[i].Now
	}
	look := func(want string) {
		t.Helper()
		if err := refresh(t, g, m); err != nil {
			t.Fatal(err)
		}
		compare(t, reg, stateHead+`penstock_queue_state{queue="q00000",state="idle"} 1
penstock_queue_state{queue="q00001",state="idle"} 1
`+want, "penstock_queue_state")
	}
	both := `penstock_queue_state{queue="q00002",state="paused"} 1
penstock_queue_state{queue="q00003",state="paused"} 1
`
	look(both)
	late := &m.infos[1400]
	late.Pause = queue.Pause{}
	late.Waiting, late.Ready, late.OldestWaiting = 3, late.Now.Add(-time.Minute), late.Now.Add(-time.Hour)
	stays := `penstock_queue_state{queue="q00002",state="paused"} 1
penstock_queue_state{queue="q01400",state="stalled"} 1
`
	look(stays)
	look(stays)
	late.Outflow, late.OldestWaiting = 1, late.Now
	look(both)
	// A queue keeps its series, even if another with the same trouble comes first by name.
	next := strings.Replace(strings.Replace(both, "q00003", "q00004", 1), "q00002", "q00003", 1)
	m.infos[2].Pause = queue.Pause{}
	look(next)
	m.infos[2].Pause.Since = m.infos[2].Now
	look(next)
}

// A rare event gives a queue series for an hour, whatever its name. Events before the first look do not.
func TestTroubleByRareEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		g, err := metrics.NewGauges(reg, 2)
		if err != nil {
			t.Fatal(err)
		}
		m := newMany(250)
		i := &m.infos[249]
		i.Died = 7
		look := func(want bool) {
			t.Helper()
			if err := refresh(t, g, m); err != nil {
				t.Fatal(err)
			}
			if _, ok := gathered(t, reg)[`penstock_rate_per_second{queue="q00249"}`]; ok != want {
				t.Errorf("after %+v: has series: %v", i.Counters, ok)
			}
		}
		look(false)
		for _, n := range []*int64{&i.Refused, &i.Retried, &i.Died, &i.Expired, &i.Lost, &i.Missing, &i.Dropped} {
			*n++
			look(true)
			time.Sleep(59 * time.Minute)
			look(true)
			time.Sleep(2 * time.Minute)
			look(false)
		}
		i.Delivered++
		look(false)
		m.infos[249].Counters = queue.Counters{} // made again
		look(false)
	})
}

// Queues whose jobs wait too long, are held or deferred have series, the longest-waiting first. The others are counted,
// and the oldest age among them is exported.
func TestTroubleByWaiting(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	g, err := metrics.NewGauges(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	m := newMany(250)
	flows := func(n int, age time.Duration) {
		i := &m.infos[n]
		i.Waiting, i.Outflow, i.Ready, i.OldestWaiting = 3, 1, i.Now, i.Now.Add(-age)
		i.Ahead, i.Lanes = i.Waiting, 1
	}
	for n := 10; n < 200; n++ {
		flows(n, 50*time.Second)
	}
	flows(210, 2*time.Hour)
	flows(220, 4*time.Hour)
	flows(249, 3*time.Hour)
	m.infos[230].Deferred = 1
	want := func(unseen float64, names ...string) {
		t.Helper()
		if err := refresh(t, g, m); err != nil {
			t.Fatal(err)
		}
		shown := []string{"q00000", "q00001"}
		page := gathered(t, reg)
		for _, name := range append(shown, names...) {
			if _, ok := page[fmt.Sprintf(`penstock_queue_capacity{queue=%q}`, name)]; !ok {
				t.Errorf("%s has no series", name)
			}
		}
		if n, err := testutil.GatherAndCount(reg, "penstock_queue_capacity"); n != 2+len(names) || err != nil {
			t.Errorf("%d queues have series, want %d more than the first: %v", n, len(names), err)
		}
		if got := page["penstock_queues_unseen{}"]; got != unseen {
			t.Errorf("%v are in trouble without series, want %v", got, unseen)
		}
	}
	want(2, "q00220", "q00249")
	if age := gathered(t, reg)[`penstock_oldest_waiting_seconds{queue="_other"}`]; age < 7200 || age > 7300 {
		t.Errorf("the oldest of the others has waited for %v s", age)
	}
	m.infos[240].Held = 1 // which ends by nobody but a person
	want(3, "q00220", "q00240")
	for _, n := range []int{210, 220, 249} {
		flows(n, 0)
	}
	want(0, "q00230", "q00240")
	m.infos[230].Deferred, m.infos[240].Held = 0, 0
	want(0)
	flows(230, 0) // a backlog that is young, and long
	m.infos[230].Waiting, m.infos[230].Ahead, m.infos[230].Spec.Capacity = 90, 90, 100
	m.infos[230].Rate = leaky.PerSecond(1)
	want(0, "q00230")
}

// gathered returns the value of each series, by its name and labels in text form.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			page[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() +
				m.GetCounter().GetValue() // it is one of them
		}
	}
	return page
}
