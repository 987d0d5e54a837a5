package metrics_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

func of(name string) *drain.Job {
	return &drain.Job{Reservation: queue.Reservation{Job: queue.Job{Queue: name}}}
}

func TestObserver(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o, err := metrics.NewObserver(reg, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		o.Departed(of(name), 300*time.Microsecond)
		o.Returned(of(name), queue.Deliver, 2*time.Millisecond)
		o.Settled(name, queue.Deliver, queue.Delivered)
	}
	o.Departed(of("a"), -time.Second) // early is not late
	o.Returned(of("a"), queue.Fail, time.Millisecond)
	o.Settled("a", queue.Fail, queue.StateNone)
	o.Returned(of("a"), queue.Bury, time.Millisecond)
	o.Unsettled("a", queue.Bury, errors.New("away"))
	o.Returned(of("b"), queue.Fail, 0) // never passed the gate: no work. What is rare gives b series of its own, and not c
	o.Settled("b", queue.Fail, queue.Scheduled)
	o.Returned(of("c"), queue.Fail, time.Millisecond)
	o.Settled("c", queue.Fail, queue.Dead) // it was the last attempt
	o.Released("a", drain.Late)
	o.Settled("a", queue.Release, queue.Waiting)
	o.Released("b", drain.Stopping)
	o.Lost("a", 5)
	o.Expired("a")
	o.LeaseLost("c")
	o.ActualIgnored("a", "cut")
	o.Free(7)
	o.Reserved(0, 10, 3, time.Millisecond, nil)
	o.Reserved(0, 10, 0, time.Millisecond, nil)
	o.Reserved(0, 10, 0, time.Millisecond, errors.New("away"))
	compare(t, reg, `
# HELP penstock_departures_total Jobs started by this drainer.
# TYPE penstock_departures_total counter
penstock_departures_total{queue="_other"} 2
penstock_departures_total{queue="a"} 2
penstock_departures_total{queue="b"} 0
# HELP penstock_deliveries_total Jobs settled by this drainer, by outcome.
# TYPE penstock_deliveries_total counter
penstock_deliveries_total{outcome="dead",queue="_other"} 1
penstock_deliveries_total{outcome="dead",queue="a"} 0
penstock_deliveries_total{outcome="dead",queue="b"} 0
penstock_deliveries_total{outcome="delivered",queue="_other"} 2
penstock_deliveries_total{outcome="delivered",queue="a"} 1
penstock_deliveries_total{outcome="delivered",queue="b"} 0
penstock_deliveries_total{outcome="released",queue="_other"} 0
penstock_deliveries_total{outcome="released",queue="a"} 1
penstock_deliveries_total{outcome="released",queue="b"} 0
penstock_deliveries_total{outcome="retry",queue="_other"} 0
penstock_deliveries_total{outcome="retry",queue="a"} 0
penstock_deliveries_total{outcome="retry",queue="b"} 1
# HELP penstock_releases_total Departures returned unused, by reason.
# TYPE penstock_releases_total counter
penstock_releases_total{queue="a",reason="late"} 1
penstock_releases_total{queue="b",reason="stopping"} 1
# HELP penstock_lost_slots_total Departures that a queue with waiting jobs missed, as reported to this drainer.
# TYPE penstock_lost_slots_total counter
penstock_lost_slots_total{queue="a"} 5
# HELP penstock_leases_expired_total Expired leases of any client, as reported to this drainer.
# TYPE penstock_leases_expired_total counter
penstock_leases_expired_total{queue="a"} 1
# HELP penstock_leases_lost_total Jobs that this drainer stopped because it had lost their lease.
# TYPE penstock_leases_lost_total counter
penstock_leases_lost_total{queue="_other"} 1
# HELP penstock_actual_ignored_total Actual costs of jobs that this drainer did not charge, by what is wrong with them.
# TYPE penstock_actual_ignored_total counter
penstock_actual_ignored_total{fault="cut",queue="a"} 1
# HELP penstock_settlements_total Settled leases, by result: accepted, stale or failed.
# TYPE penstock_settlements_total counter
penstock_settlements_total{queue="_other",result="accepted"} 3
penstock_settlements_total{queue="a",result="accepted"} 2
penstock_settlements_total{queue="a",result="failed"} 1
penstock_settlements_total{queue="a",result="stale"} 1
penstock_settlements_total{queue="b",result="accepted"} 1
# HELP penstock_free_handlers Idle handlers.
# TYPE penstock_free_handlers gauge
penstock_free_handlers 7
# HELP penstock_reserves_total Reserve calls, by result: jobs, empty or failed.
# TYPE penstock_reserves_total counter
penstock_reserves_total{result="empty"} 1
penstock_reserves_total{result="failed"} 1
penstock_reserves_total{result="jobs"} 1
# HELP penstock_start_lateness_seconds Time from a job's departure to its start.
# TYPE penstock_start_lateness_seconds histogram
penstock_start_lateness_seconds_bucket{le="5e-05"} 1
penstock_start_lateness_seconds_bucket{le="0.0001"} 1
penstock_start_lateness_seconds_bucket{le="0.0002"} 1
penstock_start_lateness_seconds_bucket{le="0.0005"} 4
penstock_start_lateness_seconds_bucket{le="0.001"} 4
penstock_start_lateness_seconds_bucket{le="0.002"} 4
penstock_start_lateness_seconds_bucket{le="0.003"} 4
penstock_start_lateness_seconds_bucket{le="0.005"} 4
penstock_start_lateness_seconds_bucket{le="0.0075"} 4
penstock_start_lateness_seconds_bucket{le="0.01"} 4
penstock_start_lateness_seconds_bucket{le="0.02"} 4
penstock_start_lateness_seconds_bucket{le="0.05"} 4
penstock_start_lateness_seconds_bucket{le="0.1"} 4
penstock_start_lateness_seconds_bucket{le="1"} 4
penstock_start_lateness_seconds_bucket{le="+Inf"} 4
penstock_start_lateness_seconds_sum 0.0009
penstock_start_lateness_seconds_count 4
`, "penstock_departures_total", "penstock_deliveries_total", "penstock_releases_total",
		"penstock_lost_slots_total", "penstock_leases_expired_total",
		"penstock_leases_lost_total", "penstock_actual_ignored_total",
		"penstock_settlements_total", "penstock_free_handlers", "penstock_reserves_total",
		"penstock_start_lateness_seconds")
	if n := samples(t, reg, "penstock_handler_seconds"); n != 6 {
		t.Errorf("%d jobs timed, want the 6 that started", n)
	}
}

// The wait of a job counts once, at its first attempt, and from its scheduled time.
func TestWaits(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	o, err := metrics.NewObserver(reg, 1)
	if err != nil {
		t.Fatal(err)
	}
	appended := time.Date(2026, 1, 15, 9, 0, 0, 0, time.UTC)
	for _, j := range []queue.Reservation{
		{Job: queue.Job{Queue: "a"}, Attempt: 1, Age: 50 * time.Second, In: 5 * time.Second},
		{Job: queue.Job{Queue: "a"}, Attempt: 2, Age: 50 * time.Hour},
		{Job: queue.Job{Queue: "b", NotBefore: appended.Add(time.Hour)}, Attempt: 1, Age: time.Hour + 20*time.Second},
		{Job: queue.Job{Queue: "b", NotBefore: appended.Add(-time.Hour)}, Attempt: 1, Age: 30 * time.Second},
	} {
		j.AppendedAt = appended
		o.Departed(&drain.Job{Reservation: j}, time.Second)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "penstock_wait_seconds" {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	if len(got) != 2 || got["a"] != 56 || got[metrics.Other] != 21+31 {
		t.Errorf("the jobs waited %v s", got)
	}
}

// Failures are counted by the engine's outcome. A handler that did not pass the gate has no working time.
func TestObserverOfADrainer(t *testing.T) {
	engine := embedded(t)
	spec := queue.Spec{Name: "email", Rate: leaky.Unlimited}
	spec.Normalize()
	spec.Retry.MaxAttempts, spec.Retry.Jitter = 3, "none"
	spec.Retry.MinBackoff, spec.Retry.MaxBackoff = unit.Duration(time.Millisecond), unit.Duration(time.Millisecond)
	if _, err := engine.Put(t.Context(), spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"delivered", "fails", "refused"} {
		if a, err := engine.Append(t.Context(), []queue.Job{job("email", id, "1")}); err != nil ||
			a[0].Outcome != queue.Accepted {
			t.Fatal(a, err)
		}
	}
	reg := prometheus.NewPedanticRegistry()
	o, err := metrics.NewObserver(reg, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	left := make(chan struct{}, 5)
	ended := make(chan error, 1)
	go func() {
		ended <- drain.Run(ctx, engine, handler(func(ctx context.Context, j *drain.Job, gate drain.Gate) error {
			defer func() { left <- struct{}{} }()
			if j.ID == "refused" {
				return drain.Permanent(errors.New("nobody lives there"))
			}
			if err := gate.Wait(ctx); err != nil {
				return err
			}
			if j.ID == "fails" {
				return errors.New("no")
			}
			return nil
		}), drain.Options{Observer: o})
	}()
	for range 5 {
		select {
		case <-left:
		case <-ctx.Done():
			t.Fatal("not all of it came to an end within a minute")
		}
	}
	stop() // what has returned is settled before it ends
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	compare(t, reg, `
# HELP penstock_deliveries_total Jobs settled by this drainer, by outcome.
# TYPE penstock_deliveries_total counter
penstock_deliveries_total{outcome="dead",queue="email"} 2
penstock_deliveries_total{outcome="delivered",queue="email"} 1
penstock_deliveries_total{outcome="released",queue="email"} 0
penstock_deliveries_total{outcome="retry",queue="email"} 2
# HELP penstock_departures_total Jobs started by this drainer.
# TYPE penstock_departures_total counter
penstock_departures_total{queue="email"} 4
`, "penstock_deliveries_total", "penstock_departures_total")
	if n := samples(t, reg, "penstock_handler_seconds"); n != 4 {
		t.Errorf("the work of %d jobs was timed, want the 4 that started", n)
	}
}

type handler func(context.Context, *drain.Job, drain.Gate) error

func (h handler) Handle(ctx context.Context, j *drain.Job, gate drain.Gate) error {
	return h(ctx, j, gate)
}

// samples returns the number of observations of a histogram.
func samples(t *testing.T, reg prometheus.Gatherer, name string) (n uint64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				n += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}
