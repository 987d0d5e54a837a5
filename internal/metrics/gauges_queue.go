package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// queueGauges are the gauges with a queue label.
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
	drain    *prometheus.GaugeVec
	delay    *prometheus.GaugeVec
	left     *prometheus.GaugeVec

	was    map[string]status.Code        // the exported state of each queue
	quotas map[string]map[string]float64 // the exported quotas of each queue
}

// newQueueGauges returns gauges whose series all have the labels more.
func newQueueGauges(more prometheus.Labels) queueGauges {
	perQueue := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: more}, append([]string{"queue"}, labels...),
		)
	}
	return queueGauges{
		jobs: perQueue("penstock_jobs", "Jobs by state.", "state"),
		capacity: perQueue(
			"penstock_queue_capacity", "Maximum number of jobs in the queue: waiting, scheduled, leased and held together.",
		),
		oldest: perQueue("penstock_oldest_waiting_seconds", "Time that the job at the head has waited; 0 if no job waits."),
		rate:   perQueue("penstock_rate_per_second", "Configured rate; +Inf if unlimited."),
		present: perQueue(
			"penstock_queue_rate",
			"Rate in effect: the configured rate, or the rate it was adapted to; +Inf if unlimited.",
		),
		outflow: perQueue(
			"penstock_outflow_per_second", "Actual rate: departures per second over the last 10 to 20 s.",
		),
		paused: perQueue("penstock_paused", "1 while the queue is paused."),
		stopped: perQueue(
			"penstock_queue_stopped_seconds",
			"Remaining time of a stop that the receiver's answers caused; 0 if not stopped.", "cause",
		),
		open: perQueue(
			"penstock_circuit_open", "1 while the circuit is open: the target counts as down and is probed.",
		),
		lanes: perQueue("penstock_lanes", "Number of lanes with waiting jobs; jobs without a lane count as one lane."),
		bytes: perQueue(
			"penstock_queue_bytes", "Size of the jobs in the queue, as max_bytes counts it.",
		),
		maxBytes: perQueue(
			"penstock_queue_max_bytes",
			"Maximum of penstock_queue_bytes: max_bytes, or the queue's share of the store; +Inf if unknown.",
		),
		dropped: perQueue(
			"penstock_queue_dead_dropped", "Dead jobs dropped early to make room, since the queue was created.",
		),
		state: perQueue(
			"penstock_queue_state", "1 for the current state of the queue; other states have no series.",
			"state",
		),
		full: perQueue("penstock_queue_full", "1 while the queue has no room for another job."),
		drain: perQueue(
			"penstock_queue_drain_seconds",
			"Time until the last job has left if no more are added; +Inf if some never leave.",
		),
		delay: perQueue(
			"penstock_queue_delay_seconds",
			"Time that a job without a lane would wait if it were added now; +Inf is forever.",
		),
		left: perQueue(
			"penstock_quota_left", "Unused part of a quota in its present window, in units of cost.", "quota",
		),
		was:    map[string]status.Code{},
		quotas: map[string]map[string]float64{},
	}
}

// vecs returns all gauges.
func (g *queueGauges) vecs() []prometheus.Collector {
	return []prometheus.Collector{
		g.state, g.full, g.jobs, g.oldest, g.rate, g.present, g.outflow, g.paused, g.stopped, g.open, g.lanes, g.bytes,
		g.maxBytes, g.dropped, g.capacity, g.drain, g.delay, g.left,
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
	g.quotasOf(info)
}

// quotasOf exports what is left of each quota. Quotas that differ only in their time zone share a series, which has the
// smaller value.
func (g *queueGauges) quotasOf(info *queue.Info) {
	name := info.Spec.Name
	left := map[string]float64{}
	for k, l := range info.Spec.Limits {
		s, ok := info.QuotaState(k)
		if !ok {
			continue
		}
		quota, n := l.QuotaText(), float64(s.Left())
		if other, ok := left[quota]; ok {
			n = min(n, other)
		}
		left[quota] = n
	}
	for quota, n := range left {
		g.left.WithLabelValues(name, quota).Set(n)
	}
	for quota := range g.quotas[name] {
		if _, ok := left[quota]; !ok {
			g.left.DeleteLabelValues(name, quota)
		}
	}
	g.quotas[name] = left
}

// outlook exports the latest forecast of a queue, if there is one.
func (g *queueGauges) outlook(name string, o *survey.Outlook, now time.Time) {
	if o == nil {
		return
	}
	drain, delay := math.Inf(1), math.Inf(1)
	if !o.Never() {
		drain = max(0, o.Finish.Sub(now).Seconds())
	}
	if wait, ok := o.Delay(); ok {
		delay = wait.Seconds()
	}
	g.drain.WithLabelValues(name).Set(drain)
	g.delay.WithLabelValues(name).Set(delay)
}

// status exports the state of a queue. Only the current state has a series.
func (g *queueGauges) status(i *queue.Info) {
	name, s := i.Spec.Name, status.Of(i)
	// Set the new state before deleting the old one: if a scrape found neither, alerts would start over.
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
	delete(g.quotas, name)
	for _, vec := range g.vecs() {
		vec.(*prometheus.GaugeVec).DeletePartialMatch(prometheus.Labels{"queue": name})
	}
}
