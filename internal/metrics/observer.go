package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// Lateness is measured against slack, 5 ms by default.
var latenessBuckets = []float64{.00005, .0001, .0002, .0005, .001, .002, .003, .005, .0075, .01, .02, .05, .1, 1}

// Observer counts what a drainer does. It is a drain.Observer.
type Observer struct {
	departures  *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	releases    *prometheus.CounterVec
	lost        *prometheus.CounterVec
	expired     *prometheus.CounterVec
	leasesLost  *prometheus.CounterVec
	settlements *prometheus.CounterVec
	lateness    prometheus.Histogram
	handling    prometheus.Histogram
	reserving   prometheus.Histogram
	reserved    *prometheus.CounterVec
	free        prometheus.Gauge

	queues *slots[*outflow]
}

var _ drain.Observer = (*Observer)(nil)

// outflow are the counters of one queue that are needed for each job.
type outflow struct {
	label                           string
	departures                      prometheus.Counter
	delivered, retry, dead, release prometheus.Counter
	settled                         prometheus.Counter
}

// NewObserver registers an observer's metrics; maxQueues is how many queues get
// series of their own, 0 for the default.
func NewObserver(reg prometheus.Registerer, maxQueues int) (*Observer, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	o := &Observer{
		departures:  counter("penstock_departures_total", "Jobs that this drainer started.", "queue"),
		deliveries:  counter("penstock_deliveries_total", "What became of started jobs, by outcome.", "queue", "outcome"),
		releases:    counter("penstock_releases_total", "Departures given back unused, by reason.", "queue", "reason"),
		lost:        counter("penstock_lost_slots_total", "Departures that a backlogged queue could have had and did not, as this drainer was told.", "queue"),
		expired:     counter("penstock_leases_expired_total", "Leases that ran out, anybody's, as this drainer was told.", "queue"),
		leasesLost:  counter("penstock_leases_lost_total", "Jobs that this drainer had to stop because their lease no longer stood.", "queue"),
		settlements: counter("penstock_settlements_total", "Ends of leases, by result: accepted, stale or failed.", "queue", "result"),
		lateness:    histogram("penstock_start_lateness_seconds", "How long after its departure a job started.", latenessBuckets),
		handling:    histogram("penstock_handler_seconds", "How long a handler worked on a job.", latencyBuckets),
		reserving:   histogram("penstock_reserve_seconds", "How long the engine took to answer a reserve.", latencyBuckets),
		reserved:    counter("penstock_reserves_total", "Reserves, by result: jobs, empty or failed.", "result"),
		free:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "penstock_free_handlers", Help: "Handlers that have nothing to do."}),
	}
	o.queues = newSlots(maxQueues, func(label string) *outflow {
		return &outflow{
			label:      label,
			departures: o.departures.WithLabelValues(label),
			delivered:  o.deliveries.WithLabelValues(label, "delivered"),
			retry:      o.deliveries.WithLabelValues(label, "retry"),
			dead:       o.deliveries.WithLabelValues(label, "dead"),
			release:    o.deliveries.WithLabelValues(label, "released"),
			settled:    o.settlements.WithLabelValues(label, "accepted"),
		}
	})
	return o, register(reg, o.departures, o.deliveries, o.releases, o.lost, o.expired, o.leasesLost, o.settlements,
		o.lateness, o.handling, o.reserving, o.reserved, o.free)
}

// Reserved implements drain.Observer.
func (o *Observer) Reserved(_, _, n int, took time.Duration, err error) {
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
func (o *Observer) Lost(name string, slots int64) {
	o.lost.WithLabelValues(o.queues.of(name).label).Add(float64(slots))
}

// Expired implements drain.Observer.
func (o *Observer) Expired(name string) { o.expired.WithLabelValues(o.queues.of(name).label).Inc() }

// Departed implements drain.Observer.
func (o *Observer) Departed(job *drain.Job, late time.Duration) {
	o.queues.of(job.Queue).departures.Inc()
	o.lateness.Observe(max(late, 0).Seconds())
}

// Returned implements drain.Observer.
func (o *Observer) Returned(job *drain.Job, verdict queue.Verdict, took time.Duration) {
	q := o.queues.of(job.Queue)
	o.handling.Observe(took.Seconds())
	switch verdict {
	case queue.Deliver:
		q.delivered.Inc()
	case queue.Fail:
		q.retry.Inc()
	case queue.Bury:
		q.dead.Inc()
	case queue.Release:
		q.release.Inc()
	}
}

// Released implements drain.Observer.
func (o *Observer) Released(name string, why drain.Reason) {
	o.releases.WithLabelValues(o.queues.of(name).label, why.String()).Inc()
}

// Settled implements drain.Observer.
func (o *Observer) Settled(name string, _ queue.Verdict, state queue.State) {
	q := o.queues.of(name)
	if state == queue.StateNone {
		o.settlements.WithLabelValues(q.label, "stale").Inc()
		return
	}
	q.settled.Inc()
}

// Unsettled implements drain.Observer.
func (o *Observer) Unsettled(name string, _ queue.Verdict, _ error) {
	o.settlements.WithLabelValues(o.queues.of(name).label, "failed").Inc()
}

// LeaseLost implements drain.Observer.
func (o *Observer) LeaseLost(name string) {
	o.leasesLost.WithLabelValues(o.queues.of(name).label).Inc()
}

// Free implements drain.Observer.
func (o *Observer) Free(handlers int) { o.free.Set(float64(handlers)) }
