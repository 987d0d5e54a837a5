package metrics_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// many is a store of which only the lists can be seen.
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

func (m *many) at(name string) (int, bool) {
	return slices.BinarySearchFunc(
		m.infos, name, func(i queue.Info, name string) int { return strings.Compare(i.Spec.Name, name) },
	)
}

func (m *many) Get(_ context.Context, name string) (queue.Info, error) {
	if i, ok := m.at(name); ok {
		return m.infos[i], nil
	}
	return queue.Info{}, queue.ErrUnknownQueue
}

func (m *many) List(_ context.Context, after string, limit int) ([]queue.Info, error) {
	from, found := m.at(after)
	if found {
		from++
	}
	to := min(len(m.infos), from+limit)
	m.listed += to - from
	return slices.Clone(m.infos[from:to]), nil
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
# HELP penstock_queue_state 1 for what the queue does, and no series for what it does not; see the status of a queue.
# TYPE penstock_queue_state gauge
`

// Alerts know every queue that stalls, is full, stopped or paused, wherever its name stands; the others cost nothing
// but a page of the list, and are counted.
func TestTour(t *testing.T) {
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
	refresh := func() {
		t.Helper()
		before := m.listed
		if err := g.Refresh(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if n := m.listed - before; n > 1002 {
			t.Errorf("a look listed %d queues", n)
		}
	}
	first := `penstock_queue_state{queue="q00000",state="idle"} 1
penstock_queue_state{queue="q00001",state="idle"} 1
`
	refresh()
	compare(t, reg, stateHead+first+`penstock_queue_state{queue="q00700",state="stalled"} 1
`, "penstock_queue_state")
	refresh()
	refresh()
	// No more than as many as the first: the third is counted.
	compare(t, reg, stateHead+first+`penstock_queue_state{queue="q00700",state="stalled"} 1
penstock_queue_state{queue="q01500",state="paused"} 1
# HELP penstock_drainers How many drainers asked the store for jobs in the last 10 s.
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
	// One that goes on gives its place up at the next look, and the next in trouble has it when the rotation comes by.
	paused.Pause = queue.Pause{}
	stalled.Outflow, stalled.OldestWaiting = 1, stalled.Now
	refresh()
	compare(t, reg, stateHead+first, "penstock_queue_state")
	refresh()
	refresh()
	compare(t, reg, stateHead+first+`penstock_queue_state{queue="q02299",state="flowing"} 1
# HELP penstock_queue_full 1 while the queue has no room for another job.
# TYPE penstock_queue_full gauge
penstock_queue_full{queue="q00000"} 0
penstock_queue_full{queue="q00001"} 0
penstock_queue_full{queue="q02299"} 1
`, "penstock_queue_state", "penstock_queue_full")
	// When only the first are left, nothing is said of others.
	m.infos = m.infos[:2]
	refresh()
	compare(t, reg, stateHead+first, "penstock_queue_state")
	if page := gathered(t, reg); page[`penstock_queues_in_state{state="idle"}`] != 2 {
		t.Errorf("%v are idle", page[`penstock_queues_in_state{state="idle"}`])
	} else if _, ok := page[`penstock_oldest_waiting_seconds{queue="_other"}`]; ok {
		t.Error("there are no others, and yet one waits")
	}
}

// What is urgent has a series however many queues were in lesser trouble before it, for as long as they like.
func TestTourPutsUrgentFirst(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	g, err := metrics.NewGauges(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	m := newMany(1500)
	for i := 2; i < 1500; i++ {
		m.infos[i].Pause.Since = m.infos[i].Now
	}
	refresh := func(want string) {
		t.Helper()
		if err := g.Refresh(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		compare(t, reg, stateHead+`penstock_queue_state{queue="q00000",state="idle"} 1
penstock_queue_state{queue="q00001",state="idle"} 1
`+want, "penstock_queue_state")
	}
	both := `penstock_queue_state{queue="q00002",state="paused"} 1
penstock_queue_state{queue="q00003",state="paused"} 1
`
	refresh(both)
	refresh(both)
	late := &m.infos[1400]
	late.Pause = queue.Pause{}
	late.Waiting, late.Ready, late.OldestWaiting = 3, late.Now.Add(-time.Minute), late.Now.Add(-time.Hour)
	refresh(both) // of the first 1,000
	stays := `penstock_queue_state{queue="q00002",state="paused"} 1
penstock_queue_state{queue="q01400",state="stalled"} 1
`
	refresh(stays)
	refresh(stays)
	late.Outflow, late.OldestWaiting = 1, late.Now
	refresh(`penstock_queue_state{queue="q00002",state="paused"} 1
penstock_queue_state{queue="q01002",state="paused"} 1
`)
}

// A queue whose jobs wait too long, are held or deferred has series by its name, those that wait the longest first; the
// others are counted, and the oldest of them is shown.
func TestTourFindsWhatWaits(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	g, err := metrics.NewGauges(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	m := newMany(250)
	flows := func(n int, age time.Duration) {
		i := &m.infos[n]
		i.Waiting, i.Outflow, i.Ready, i.OldestWaiting = 3, 1, i.Now, i.Now.Add(-age)
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
		if err := g.Refresh(t.Context(), m); err != nil {
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
}

// gathered is the value of each series, by its name and labels as they are written.
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
			page[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue() // it is one of them
		}
	}
	return page
}
