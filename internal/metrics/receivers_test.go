package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// The effects of receivers' answers are exported: held jobs, stops, open circuits and adapted rates.
func TestGaugesOfReceivers(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		reg := prometheus.NewPedanticRegistry()
		g, err := metrics.NewGauges(reg, 10)
		if err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func(*queue.Spec){
			"calm": func(*queue.Spec) {},
			"held": func(s *queue.Spec) { s.Rate = leaky.Unlimited },
			"slow": func(s *queue.Spec) {
				s.Adapt = queue.Adapt{Floor: leaky.PerSecond(2), Ceiling: leaky.PerSecond(20)}
			},
			"down": func(s *queue.Spec) {
				s.Circuit = queue.Circuit{Failures: 1, MinProbe: unit.Duration(time.Hour), MaxProbe: unit.Duration(time.Hour)}
			},
		} {
			s := queue.Spec{Name: name, Rate: leaky.PerSecond(10), Pull: true}
			change(&s)
			if _, err := e.Put(t.Context(), s, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Append(t.Context(), []queue.Job{job(name, "1", "1"), job(name, "2", "1")}); err != nil {
				t.Fatal(err)
			}
		}
		for name, s := range map[string]queue.Settlement{
			"held": {Verdict: queue.Hold, Reason: "lost"}, "slow": {
				Verdict: queue.Throttle, After: 2 * time.Hour, Reason: "429",
			}, "down": {Verdict: queue.Down, Reason: "refused"},
		} {
			got, err := e.Reserve(t.Context(), queue.ReserveRequest{
				Client: queue.Client{ID: name}, Number: 1, Max: 1, Queue: name,
			})
			if err != nil || len(got.Jobs) != 1 {
				t.Fatal(got, err)
			}
			v := got.Jobs[0]
			s.Lease = queue.Lease{Queue: name, ID: v.ID, Fence: v.Fence}
			if out, err := e.Settle(t.Context(), []queue.Settlement{s}); err != nil || out[0].Stale {
				t.Fatal(out, err)
			}
		}
		if err := refresh(t, g, e); err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct {
			metric, queue, label string
			least, most          float64
		}{
			{"penstock_jobs", "held", "held", 1, 1},
			{"penstock_jobs", "held", "waiting", 1, 1},
			{"penstock_jobs", "calm", "held", 0, 0},
			{"penstock_jobs", "slow", "waiting", 2, 2},
			{"penstock_queue_rate", "slow", "", 7.5, 7.5},
			{"penstock_rate_per_second", "slow", "", 10, 10},
			{"penstock_queue_rate", "calm", "", 10, 10},
			{"penstock_queue_stopped_seconds", "slow", "throttled", 7000, 7200},
			{"penstock_queue_stopped_seconds", "slow", "down", 0, 0},
			{"penstock_queue_stopped_seconds", "down", "down", 3400, 3600},
			{"penstock_queue_stopped_seconds", "down", "throttled", 0, 0},
			{"penstock_queue_stopped_seconds", "calm", "throttled", 0, 0},
			{"penstock_circuit_open", "down", "", 1, 1},
			{"penstock_circuit_open", "slow", "", 0, 0},
		} {
			if got, ok := gauge(t, reg, want.metric, want.queue, want.label); !ok || got < want.least || got > want.most {
				t.Errorf(
					"%s of %s %s is %v (%v), want %v to %v", want.metric, want.queue, want.label, got, ok, want.least, want.most,
				)
			}
		}
		// After a resume and a decision, they end.
		if err := e.Resume(t.Context(), "down"); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Decide(t.Context(), "held", []string{"1", "2"}, queue.Bury, ""); err != nil {
			t.Fatal(err)
		}
		if err := refresh(t, g, e); err != nil {
			t.Fatal(err)
		}
		open, _ := gauge(t, reg, "penstock_circuit_open", "down", "")
		stopped, _ := gauge(t, reg, "penstock_queue_stopped_seconds", "down", "down")
		held, _ := gauge(t, reg, "penstock_jobs", "held", "held")
		if open != 0 || stopped != 0 || held != 0 {
			t.Errorf("still open %v, stopped for %v, %v held", open, stopped, held)
		}
	})
}

// gauge returns the value for a queue and an optional second label.
func gauge(t *testing.T, reg prometheus.Gatherer, name, of, label string) (float64, bool) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			about, other := "", ""
			for _, l := range m.GetLabel() {
				if l.GetName() == "queue" {
					about = l.GetValue()
				} else {
					other = l.GetValue()
				}
			}
			if family.GetName() == name && about == of && other == label {
				return m.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}
