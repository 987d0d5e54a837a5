package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// queueGauges show how each of some queues is.
type queueGauges struct {
	jobs     *prometheus.GaugeVec
	capacity *prometheus.GaugeVec
	oldest   *prometheus.GaugeVec
	rate     *prometheus.GaugeVec
	present  *prometheus.GaugeVec
	outflow  *prometheus.GaugeVec
	paused   *prometheus.GaugeVec
	stopped  *prometheus.GaugeVec
	open     *prometheus.GaugeVec
	lanes    *prometheus.GaugeVec
	bytes    *prometheus.GaugeVec
	maxBytes *prometheus.GaugeVec
	dropped  *prometheus.GaugeVec
	state    *prometheus.GaugeVec
	full     *prometheus.GaugeVec

	was map[string]status.Code // the state that each is shown in
}

// newQueueGauges returns gauges whose series all have some labels more.
func newQueueGauges(more prometheus.Labels) queueGauges {
	perQueue := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: more}, append([]string{"queue"}, labels...),
		)
	}
	return queueGauges{
		jobs: perQueue("penstock_jobs", "Jobs by state.", "state"),
		capacity: perQueue(
			"penstock_queue_capacity", "How many jobs the queue may hold: waiting, scheduled, leased and held together.",
		),
		oldest: perQueue("penstock_oldest_waiting_seconds", "How long the job at the head has been in; 0 when none waits."),
		rate:   perQueue("penstock_rate_per_second", "The configured outflow; +Inf when unlimited."),
		present: perQueue(
			"penstock_queue_rate",
			"The outflow a second that the queue sends at: the configured one, or what that has been adapted to; +Inf when "+
				"unlimited.",
		),
		outflow: perQueue(
			"penstock_outflow_per_second", "The effective rate: departures a second over the last 10 to 20 s.",
		),
		paused: perQueue("penstock_paused", "1 while the queue is paused."),
		stopped: perQueue(
			"penstock_queue_stopped_seconds",
			"For how long nothing will leave the queue because of what its receiver answered; 0 when it goes on.", "cause",
		),
		open: perQueue(
			"penstock_circuit_open", "1 while the circuit of the queue is open: its target is taken to be down, and probed.",
		),
		lanes: perQueue("penstock_lanes", "In how many lanes jobs wait, the one of jobs that name none included."),
		bytes: perQueue(
			"penstock_queue_bytes", "What the jobs take that hold a place, in bytes as max_bytes counts them.",
		),
		maxBytes: perQueue(
			"penstock_queue_max_bytes",
			"How much that may be: max_bytes of the queue, or its share of the store; +Inf when neither is known.",
		),
		dropped: perQueue(
			"penstock_queue_dead_dropped", "Dead jobs that were dropped early to make room, since the queue was made.",
		),
		state: perQueue(
			"penstock_queue_state", "1 for what the queue does, and no series for what it does not; see the status of a queue.",
			"state",
		),
		full: perQueue("penstock_queue_full", "1 while the queue has no room for another job."),
		was:  map[string]status.Code{},
	}
}

// vecs are all of them.
func (g *queueGauges) vecs() []prometheus.Collector {
	return []prometheus.Collector{
		g.state, g.full, g.jobs, g.oldest, g.rate, g.present, g.outflow, g.paused, g.stopped, g.open, g.lanes, g.bytes,
		g.maxBytes, g.dropped, g.capacity,
	}
}

func (g *queueGauges) set(info *queue.Info, now time.Time) {
	name := info.Spec.Name
	g.status(info)
	g.jobsIn(name, &queue.Totals{
		Waiting: info.Waiting, Scheduled: info.Scheduled, Leased: info.Leased, Held: info.Held, Deferred: info.Deferred,
		Dead: info.Dead,
	})
	g.capacity.WithLabelValues(name).Set(float64(info.Spec.Capacity))
	g.oldest.WithLabelValues(name).Set(waited(info.OldestWaiting, now))
	g.rate.WithLabelValues(name).Set(perSecond(info.Spec.Rate))
	g.present.WithLabelValues(name).Set(perSecond(info.Rate))
	g.outflow.WithLabelValues(name).Set(info.Outflow)
	paused := 0.0
	if info.Pause.On() {
		paused = 1
	}
	g.paused.WithLabelValues(name).Set(paused)
	for _, cause := range queue.StopCauses {
		stopped := 0.0
		if info.Stop.Cause == cause {
			stopped = max(info.Stop.Until.Sub(info.Now).Seconds(), 0)
		}
		g.stopped.WithLabelValues(name, string(cause)).Set(stopped)
	}
	open := 0.0
	if info.Circuit.Open() {
		open = 1
	}
	g.open.WithLabelValues(name).Set(open)
	g.lanes.WithLabelValues(name).Set(float64(info.Lanes))
	g.bytes.WithLabelValues(name).Set(float64(info.Bytes))
	g.maxBytes.WithLabelValues(name).Set(orNoBound(info.MaxBytes, info.MaxBytes >= queue.AnyBytes))
	g.dropped.WithLabelValues(name).Set(float64(info.Dropped))
}

// status shows what a queue does: of its states the present one alone is a series.
func (g *queueGauges) status(i *queue.Info) {
	name, s := i.Spec.Name, status.Of(i)
	// The new one first: a scrape between the two must not find none, or alerts would begin anew.
	g.state.WithLabelValues(name, string(s.Code)).Set(1)
	if was, ok := g.was[name]; ok && was != s.Code {
		g.state.DeleteLabelValues(name, string(was))
	}
	g.was[name] = s.Code
	full := 0.0
	if s.Full {
		full = 1
	}
	g.full.WithLabelValues(name).Set(full)
}

func (g *queueGauges) jobsIn(label string, n *queue.Totals) {
	for state, jobs := range map[queue.State]int64{
		queue.Waiting: n.Waiting, queue.Scheduled: n.Scheduled, queue.Leased: n.Leased, queue.Held: n.Held,
		queue.Deferred: n.Deferred, queue.Dead: n.Dead,
	} {
		g.jobs.WithLabelValues(label, state.String()).Set(float64(max(jobs, 0)))
	}
}

func (g *queueGauges) forget(name string) {
	delete(g.was, name)
	for _, vec := range g.vecs() {
		vec.(*prometheus.GaugeVec).DeletePartialMatch(prometheus.Labels{"queue": name})
	}
}
