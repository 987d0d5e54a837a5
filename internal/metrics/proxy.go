package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/proxy"
)

// Proxy is a proxy.Observer that counts.
type Proxy struct {
	calls, ignored  *prometheus.CounterVec
	waited          prometheus.Histogram
	waiting, active prometheus.Gauge
	queues          *slots
}

var _ proxy.Observer = (*Proxy)(nil)

// NewProxy registers the metrics of calls. maxQueues is the number of queues with series of their own; 0 is the
// default.
func NewProxy(reg prometheus.Registerer, maxQueues int) (*Proxy, error) {
	m := &Proxy{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_proxy_calls_total", Help: "Calls through the proxy, by how they ended.",
		}, []string{"queue", "outcome"}),
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_proxy_actual_ignored_total",
			Help: "Actual costs of calls that were not charged, by what is wrong with them.",
		}, []string{"queue", "fault"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "penstock_proxy_wait_seconds", Help: "How long answered calls waited for their turns.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_proxy_waiting", Help: "Calls that wait for their turns.",
		}),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_proxy_active", Help: "Calls that were sent and whose answers have not ended.",
		}),
	}
	m.queues = newSlots(maxQueues, kind{m.calls.MetricVec, string(proxy.Answered)})
	return m, register(reg, m.calls, m.ignored, m.waited, m.waiting, m.active)
}

// Waits implements proxy.Observer.
func (m *Proxy) Waits(change int) { m.waiting.Add(float64(change)) }

// Runs implements proxy.Observer.
func (m *Proxy) Runs(change int) { m.active.Add(float64(change)) }

// Ignored implements proxy.Observer.
func (m *Proxy) Ignored(queue, fault string) { m.queues.add(queue, m.ignored, fault, 1) }

// Ended implements proxy.Observer.
func (m *Proxy) Ended(queue string, o proxy.Outcome, waited time.Duration) {
	m.queues.age(time.Now())
	m.queues.add(queue, m.calls, string(o), 1)
	if o == proxy.Answered || o == proxy.Throttled {
		m.waited.Observe(waited.Seconds())
	}
}
