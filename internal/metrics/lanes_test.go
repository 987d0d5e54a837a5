package metrics_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// laned is a store whose queues have the given numbers of lanes, and that refuses each job with the outcome in its id.
type laned struct {
	queue.Engine
	infos []queue.Info
}

func (l *laned) Totals(context.Context) (queue.Totals, error) {
	return queue.Totals{Queues: int64(len(l.infos))}, nil
}

func (l *laned) Space(context.Context) (queue.Space, error) { return queue.Space{}, nil }

func (l *laned) Readings(context.Context) (all []queue.Reading, err error) {
	for n := range l.infos {
		all = append(all, readingOf(&l.infos[n]))
	}
	return all, nil
}

func (l *laned) GetMany(_ context.Context, names []string) ([]queue.Info, error) {
	some := slices.Clone(l.infos)
	return slices.DeleteFunc(some, func(i queue.Info) bool { return !slices.Contains(names, i.Spec.Name) }), nil
}

// readingOf returns the short reading of a queue.
func readingOf(i *queue.Info) queue.Reading {
	return queue.Reading{
		Name: i.Spec.Name, Revision: i.Revision, Size: i.Size(), Bytes: i.Bytes, Deferred: i.Deferred, Counters: i.Counters,
		Outflow: i.Outflow, Rate: i.Rate, Now: i.Now,
	}
}

func (l *laned) Drainers(context.Context) (queue.Drainers, error) { return queue.Drainers{}, nil }

func (l *laned) Append(_ context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	answers := make([]queue.Appended, len(jobs))
	for i := range jobs {
		answers[i] = queue.Appended{ID: jobs[i].ID, RetryAfter: time.Second}
		for o := queue.Full; o <= queue.ScheduleFull; o++ {
			if o.String() == jobs[i].ID {
				answers[i].Outcome = o
			}
		}
	}
	return answers, nil
}

func TestLanes(t *testing.T) {
	info := func(name string, lanes int64) queue.Info {
		return queue.Info{Spec: queue.Spec{Name: name, Rate: leaky.PerSecond(1), Capacity: 10}, Lanes: lanes}
	}
	l := &laned{infos: []queue.Info{info("a", 1_000_000), info("b", 0), info("c", 5)}}
	reg := prometheus.NewPedanticRegistry()
	g, err := metrics.NewGauges(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := refresh(t, g, l); err != nil {
		t.Fatal(err)
	}
	const head = `
# HELP penstock_lanes Number of lanes with waiting jobs; jobs without a lane count as one lane.
# TYPE penstock_lanes gauge
`
	compare(t, reg, head+`penstock_lanes{queue="a"} 1e+06
penstock_lanes{queue="b"} 0
`, "penstock_lanes")
	l.infos = l.infos[1:]
	if err := refresh(t, g, l); err != nil {
		t.Fatal(err)
	}
	compare(t, reg, head+`penstock_lanes{queue="b"} 0
penstock_lanes{queue="c"} 5
`, "penstock_lanes")

	// Refusals are labeled by reason, never by values that a producer chose.
	e, err := metrics.NewEngine(l, reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"full", "lane_full", "lane_full", "schedule_full", "expired"} {
		if _, err := e.Append(t.Context(), []queue.Job{{Queue: "a", ID: id, Lane: "gmail.com"}}); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, reg, `
# HELP penstock_refused_total Jobs refused, by reason.
# TYPE penstock_refused_total counter
penstock_refused_total{queue="a",reason="conflict"} 0
penstock_refused_total{queue="a",reason="expired"} 1
penstock_refused_total{queue="a",reason="failed"} 0
penstock_refused_total{queue="a",reason="full"} 1
penstock_refused_total{queue="a",reason="invalid"} 0
penstock_refused_total{queue="a",reason="lane_full"} 2
penstock_refused_total{queue="a",reason="schedule_full"} 1
`, "penstock_refused_total")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if text := f.String(); strings.Contains(text, "gmail.com") {
			t.Errorf("a lane's key is in %s", text)
		}
	}
}
