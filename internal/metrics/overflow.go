package metrics

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/queue"
)

// Overflow is a deferred.Observer that counts.
type Overflow struct {
	stored   *prometheus.CounterVec
	failed   *prometheus.CounterVec
	returned *prometheus.CounterVec
	letters  *prometheus.CounterVec
	unburied *prometheus.CounterVec
	missing  *prometheus.CounterVec
	latency  prometheus.Histogram

	queues *slots
	ages   *ages
}

var _ deferred.Observer = (*Overflow)(nil)

// NewOverflow registers the overflow's metrics. maxQueues is the number of queues with series of their own; 0 is the
// default.
func NewOverflow(reg prometheus.Registerer, maxQueues int) (*Overflow, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	o := &Overflow{
		stored: counter("penstock_deferred_total", "Jobs that this process stored on the overflow.", "queue"),
		failed: counter(
			"penstock_overflow_failures_total", "Messages that the overflow refused, by reason.", "reason",
		),
		returned: counter(
			"penstock_readmitted_total", "Jobs that this process moved from the overflow into their queue.", "queue",
		),
		letters: counter(
			"penstock_dead_letters_total", "Deferred jobs that could not be readmitted, by reason.", "queue", "reason",
		),
		unburied: counter(
			"penstock_dead_letter_failures_total",
			"Failed attempts to store dead letters, by reason. Until one succeeds, no later job is readmitted.",
			"reason",
		),
		missing: counter(
			"penstock_deferred_missing_total",
			"Jobs recorded as deferred but missing on the overflow: never acknowledged, or lost by NATS.", "queue",
		),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "penstock_overflow_publish_seconds",
			Help: "Time until the overflow acknowledged a message of deferred jobs.", Buckets: latencyBuckets,
		}),
	}
	o.queues = newSlots(maxQueues, kind{o.stored.MetricVec, ""}, kind{o.returned.MetricVec, ""})
	o.ages = newAges(o.queues.most)
	return o, register(reg, o.stored, o.failed, o.returned, o.letters, o.unburied, o.missing, o.latency, o.ages)
}

// Stored implements deferred.Observer.
func (o *Overflow) Stored(name string, jobs int, took time.Duration, err error) {
	o.queues.age(time.Now())
	if err != nil {
		o.failed.WithLabelValues(failure(err)).Inc()
		return
	}
	o.latency.Observe(took.Seconds())
	o.queues.add(name, o.stored, "", float64(jobs))
}

func failure(err error) string {
	switch {
	case errors.Is(err, deferred.ErrFull):
		return "full"
	case errors.Is(err, deferred.ErrTooLarge):
		return "too_large"
	case errors.Is(err, queue.ErrUnavailable):
		return "unavailable"
	}
	return "unknown"
}

// Returned implements deferred.Observer.
func (o *Overflow) Returned(name string, jobs int) {
	o.queues.add(name, o.returned, "", float64(jobs))
}

// DeadLetter implements deferred.Observer. Letters without a queue, or that Penstock did not write, get no slot.
func (o *Overflow) DeadLetter(name string, reason deferred.Reason, jobs int) {
	switch {
	case name == "":
		o.queues.addKnown(Other, o.letters, string(reason), float64(jobs))
	case reason == deferred.NotOurs:
		o.queues.addKnown(name, o.letters, string(reason), float64(jobs))
	default:
		o.queues.addRare(name, o.letters, string(reason), float64(jobs))
	}
}

// DeadLetterFailed implements deferred.Observer.
func (o *Overflow) DeadLetterFailed(_ string, err error) {
	o.unburied.WithLabelValues(failure(err)).Inc()
}

// Missing implements deferred.Observer.
func (o *Overflow) Missing(name string, jobs int) {
	o.queues.addRare(name, o.missing, "", float64(jobs))
}

// Depth implements deferred.Observer.
func (o *Overflow) Depth(name string, _ int64, oldest time.Time) { o.ages.set(name, oldest) }

// ages exports the age of the oldest deferred job of each queue at the time of the scrape. The queues with the oldest
// jobs have series of their own; the rest share the maximum of their ages.
type ages struct {
	desc *prometheus.Desc
	most int

	mu    sync.Mutex
	since map[string]time.Time
}

func newAges(most int) *ages {
	return &ages{
		desc: prometheus.NewDesc("penstock_deferred_oldest_age_seconds",
			"Age of a queue's oldest deferred job, as seen by the process that readmits it.",
			[]string{"queue"}, nil),
		most:  most,
		since: map[string]time.Time{},
	}
}

func (a *ages) set(name string, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since.IsZero() {
		delete(a.since, name)
		return
	}
	a.since[name] = since
}

// Describe implements prometheus.Collector.
func (a *ages) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

// Collect implements prometheus.Collector.
func (a *ages) Collect(ch chan<- prometheus.Metric) {
	a.mu.Lock()
	since := maps.Clone(a.since)
	a.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(since), func(x, y string) int {
		return cmp.Or(since[x].Compare(since[y]), strings.Compare(x, y))
	})
	for n, name := range names[:min(a.most+1, len(names))] {
		label := name
		if n == a.most {
			label = Other
		}
		ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, max(time.Since(since[name]).Seconds(), 0), label)
	}
}
