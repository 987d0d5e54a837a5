package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// latenessBuckets are dense around the default slack, 5 ms.
var latenessBuckets = []float64{.00005, .0001, .0002, .0005, .001, .002, .003, .005, .0075, .01, .02, .05, .1, 1}

// waitBuckets range from a queue without a backlog to a week.
var waitBuckets = []float64{.01, .1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600}

// Observer is a drain.Observer that counts.
type Observer struct {
	departures  *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	releases    *prometheus.CounterVec
	lost        *prometheus.CounterVec
	expired     *prometheus.CounterVec
	leasesLost  *prometheus.CounterVec
	settlements *prometheus.CounterVec
	opened      *prometheus.CounterVec
	ignored     *prometheus.CounterVec
	lateness    prometheus.Histogram
	handling    *prometheus.HistogramVec
	waits       *prometheus.HistogramVec
	reserving   prometheus.Histogram
	reserved    *prometheus.CounterVec
	free        prometheus.Gauge

	queues *slots
}

var _ drain.Observer = (*Observer)(nil)

// NewObserver registers an observer's metrics. maxQueues is the number of queues with series of their own; 0 is the
// default.
func NewObserver(reg prometheus.Registerer, maxQueues int) (*Observer, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	perQueue := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"queue"},
		)
	}
	o := &Observer{
		departures: counter("penstock_departures_total", "Jobs started by this drainer.", "queue"),
		deliveries: counter(
			"penstock_deliveries_total", "Jobs settled by this drainer, by outcome.", "queue", "outcome",
		),
		releases: counter("penstock_releases_total", "Departures returned unused, by reason.", "queue", "reason"),
		lost: counter(
			"penstock_lost_slots_total",
			"Departures that a queue with waiting jobs missed, as reported to this drainer.", "queue",
		),
		expired: counter(
			"penstock_leases_expired_total", "Expired leases of any client, as reported to this drainer.", "queue",
		),
		leasesLost: counter(
			"penstock_leases_lost_total", "Jobs that this drainer stopped because it had lost their lease.", "queue",
		),
		settlements: counter(
			"penstock_settlements_total", "Settled leases, by result: accepted, stale or failed.", "queue", "result",
		),
		opened: counter(
			"penstock_circuit_opened_total", "Circuits opened by failures that this drainer reported.",
			"queue",
		),
		ignored: counter(
			"penstock_actual_ignored_total",
			"Actual costs of jobs that this drainer did not charge, by what is wrong with them.", "queue", "fault",
		),
		lateness: histogram(
			"penstock_start_lateness_seconds", "Time from a job's departure to its start.", latenessBuckets,
		),
		handling: perQueue(
			"penstock_handler_seconds", "Time that a handler worked on a started job.", latencyBuckets,
		),
		waits: perQueue(
			"penstock_wait_seconds",
			"Time that a job waited for its first attempt since it was appended, or since its scheduled time.", waitBuckets,
		),
		reserving: histogram("penstock_reserve_seconds", "Duration of a reserve call.", latencyBuckets),
		reserved:  counter("penstock_reserves_total", "Reserve calls, by result: jobs, empty or failed.", "result"),
		free: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_free_handlers", Help: "Idle handlers.",
		}),
	}
	o.queues = newSlots(maxQueues, kind{o.departures.MetricVec, ""}, kind{o.deliveries.MetricVec, "delivered"},
		kind{o.deliveries.MetricVec, "retry"},
		kind{o.deliveries.MetricVec, "dead"}, kind{o.deliveries.MetricVec, "released"},
		kind{o.settlements.MetricVec, "accepted"})
	return o, register(reg, o.departures, o.deliveries, o.releases, o.lost, o.expired, o.leasesLost, o.settlements,
		o.opened, o.ignored,
		o.lateness, o.handling, o.waits, o.reserving, o.reserved, o.free)
}

// Reserved implements drain.Observer. A drainer reserves every few seconds in any case, so old slots are freed here.
func (o *Observer) Reserved(_, _, n int, took time.Duration, err error) {
	o.queues.age(time.Now())
	o.reserving.Observe(took.Seconds())
	result := "jobs"
	switch {
	case err != nil:
		result = "failed"
	case n == 0:
		result = "empty"
	}
	o.reserved.WithLabelValues(result).Inc()
}

// Lost implements drain.Observer.
func (o *Observer) Lost(name string, slots int64) { o.queues.addRare(name, o.lost, "", float64(slots)) }

// Expired implements drain.Observer.
func (o *Observer) Expired(name string) { o.queues.addRare(name, o.expired, "", 1) }

// Departed implements drain.Observer.
func (o *Observer) Departed(job *drain.Job, late time.Duration) {
	o.queues.add(job.Queue, o.departures, "", 1)
	late = max(late, 0)
	observe(o.lateness, late.Seconds(), exemplarOfJob(job))
	if job.Attempt == 1 {
		o.queues.observeJob(job, o.waits, waitOf(job)+late)
	}
}

// Returned implements drain.Observer. Settled counts the outcome: only the engine knows whether a failure was the last.
func (o *Observer) Returned(job *drain.Job, _ queue.Verdict, took time.Duration) {
	if took > 0 { // otherwise the job did not pass the gate
		o.queues.observeJob(job, o.handling, took)
	}
}

// waitOf returns the time from when the job was appended, or due if it was scheduled, until its departure.
func waitOf(job *drain.Job) time.Duration {
	wait := job.Age + job.In
	if !job.NotBefore.IsZero() {
		wait -= max(0, job.NotBefore.Sub(job.AppendedAt))
	}
	return max(wait, 0)
}

// Released implements drain.Observer.
func (o *Observer) Released(name string, why drain.Reason) {
	o.queues.add(name, o.releases, why.String(), 1)
}

// Settled implements drain.Observer.
func (o *Observer) Settled(name string, verdict queue.Verdict, state queue.State) {
	if state == queue.StateNone {
		o.queues.add(name, o.settlements, "stale", 1)
		return
	}
	switch outcome := outcome(verdict, state); outcome {
	case "dead":
		o.queues.addRare(name, o.deliveries, outcome, 1)
	case "retry":
		o.queues.addFailing(name, o.deliveries, outcome, 1)
	default:
		o.queues.add(name, o.deliveries, outcome, 1)
	}
	o.queues.add(name, o.settlements, "accepted", 1)
}

// Affected implements drain.Observer.
func (o *Observer) Affected(s queue.Settlement, e queue.Effect) {
	if e.Opened {
		o.queues.addRare(s.Queue, o.opened, "", 1)
	}
}

// outcome names the result of an attempt, given the state of the job after its settlement.
func outcome(verdict queue.Verdict, state queue.State) string {
	switch state {
	case queue.Scheduled:
		return "retry"
	case queue.Waiting:
		return verdict.String() // released, throttled or down
	default: // delivered and dead
		return state.String()
	}
}

// ActualIgnored implements drain.Observer.
func (o *Observer) ActualIgnored(name, fault string) { o.queues.add(name, o.ignored, fault, 1) }

// Unsettled implements drain.Observer.
func (o *Observer) Unsettled(name string, _ queue.Verdict, _ error) {
	o.queues.add(name, o.settlements, "failed", 1)
}

// LeaseLost implements drain.Observer.
func (o *Observer) LeaseLost(name string) { o.queues.addRare(name, o.leasesLost, "", 1) }

// Free implements drain.Observer.
func (o *Observer) Free(handlers int) { o.free.Set(float64(handlers)) }
