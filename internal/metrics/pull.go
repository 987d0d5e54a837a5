package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/pull"
)

// Pull is a pull.Observer that counts.
type Pull struct {
	jobs          *prometheus.CounterVec
	lost, expired *prometheus.CounterVec
	lateness      prometheus.Histogram
	waiting       prometheus.Gauge
	queues        *slots
}

var _ pull.Observer = (*Pull)(nil)

// NewPull registers the metrics of paced pull. maxQueues is the number of queues with series of their own; 0 is the
// default.
func NewPull(reg prometheus.Registerer, maxQueues int) (*Pull, error) {
	perQueue := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"queue"}, labels...))
	}
	m := &Pull{
		jobs: perQueue(
			"penstock_pull_jobs_total",
			"Jobs granted to pulling workers: handed over, or the reason for returning them.", "outcome",
		),
		lost: perQueue(
			"penstock_pull_slots_lost_total",
			"Departures that a pull queue with waiting jobs missed because no worker asked in time.",
		),
		expired: perQueue(
			"penstock_pull_leases_expired_total",
			"Expired leases of any queue, found when a worker asked a pull queue for jobs.",
		),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "penstock_pull_lateness_seconds", Help: "Time from a job's departure to the end of its response, at most.",
			Buckets: latencyBuckets,
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_pull_waiting", Help: "Requests waiting for jobs of a pull queue.",
		}),
	}
	m.queues = newSlots(maxQueues, kind{m.jobs.MetricVec, "handed"}, kind{m.jobs.MetricVec, pull.Late.String()})
	return m, register(reg, m.jobs, m.lost, m.expired, m.lateness, m.waiting)
}

// Waiting implements pull.Observer.
func (m *Pull) Waiting(requests int) { m.waiting.Set(float64(requests)) }

// Handed implements pull.Observer.
func (m *Pull) Handed(queue string, late time.Duration) {
	m.queues.age(time.Now())
	m.queues.add(queue, m.jobs, "handed", 1)
	m.lateness.Observe(late.Seconds())
}

// Released implements pull.Observer.
func (m *Pull) Released(queue string, why pull.Reason) { m.queues.add(queue, m.jobs, why.String(), 1) }

// Lost implements pull.Observer.
func (m *Pull) Lost(queue string, slots int64) { m.queues.addRare(queue, m.lost, "", float64(slots)) }

// Expired implements pull.Observer.
func (m *Pull) Expired(queue string) { m.queues.addRare(queue, m.expired, "", 1) }
