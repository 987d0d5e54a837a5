package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultMaxQueues is how many queues have series of their own.
const DefaultMaxQueues = 200

// Other is the queue label of all queues beyond those. No queue can have this name.
const Other = "_other"

const (
	// keepQueue is how long a queue of which nothing is seen keeps its series, and its
	// place among the first. Queues come and go, and a process hears of few of their ends:
	// without it all that come later would share one label for good.
	keepQueue = time.Hour
	// ageStep is how exactly that is kept.
	ageStep = time.Minute
)

// slots are the counters and histograms that are labelled by queue, or by rule: the first so many queues
// have series of their own, all others share one.
type slots struct {
	most  int
	zeros []kind // series that begin with a slot, so that their first count is seen as an increase

	mu     sync.RWMutex // held while counting, so that no series is ended under somebody who counts in it
	looked time.Time    // when age last looked
	named  map[string]*slot
	other  *slot
}

// kind is one counter, or histogram, of a queue: a vector, and the value of its label beside the
// queue, "" when it has none.
type kind struct {
	vec   *prometheus.MetricVec
	value string
}

func (k kind) labels(queue string) []string {
	if k.value == "" {
		return []string{queue}
	}
	return []string{queue, k.value}
}

// slot is the series of one label.
type slot struct {
	label string
	made  map[kind]prometheus.Metric
	fresh atomic.Bool // something was counted since age last looked
	seen  time.Time   // when age last found it fresh
}

func newSlot(label string) *slot {
	q := &slot{label: label, made: map[kind]prometheus.Metric{}}
	q.fresh.Store(true)
	return q
}

func newSlots(most int, zeros ...kind) *slots {
	if most <= 0 {
		most = DefaultMaxQueues
	}
	return &slots{most: most, zeros: zeros, named: map[string]*slot{}, other: newSlot(Other)}
}

// add counts for a queue that is known to exist.
func (s *slots) add(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, true)
}

// addKnown counts for what may be no queue at all: it gets no slot by that.
func (s *slots) addKnown(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, false)
}

// observe adds to a histogram of what is known to exist.
func (s *slots) observe(queue string, vec *prometheus.HistogramVec, value string, v float64) {
	s.count(queue, kind{vec.MetricVec, value}, v, true)
}

func (s *slots) count(queue string, k kind, n float64, take bool) {
	s.mu.RLock()
	q := s.named[queue]
	if q == nil && (!take || len(s.named) >= s.most) {
		q = s.other
	}
	if q != nil {
		if c := q.made[k]; c != nil {
			if !q.fresh.Load() { // most often it is, and need not be written by everybody
				q.fresh.Store(true)
			}
			put(c, n)
			s.mu.RUnlock()
			return
		}
	}
	s.mu.RUnlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	q = s.named[queue]
	switch {
	case q != nil:
	case !take:
		q = s.other
	case len(s.named) >= s.most:
		q = s.other
		s.begin(q)
	default:
		q = newSlot(queue)
		s.named[queue] = q
		s.begin(q)
	}
	q.fresh.Store(true)
	put(q.metric(k), n)
}

func put(m prometheus.Metric, v float64) {
	switch m := m.(type) {
	case prometheus.Counter:
		m.Add(v)
	case prometheus.Histogram:
		m.Observe(v)
	}
}

// begin shows a label's first series. It is called with mu held.
func (s *slots) begin(q *slot) {
	for _, k := range s.zeros {
		q.metric(k)
	}
}

func (q *slot) metric(k kind) prometheus.Metric {
	m := q.made[k]
	if m == nil {
		var err error
		if m, err = k.vec.GetMetricWithLabelValues(k.labels(q.label)...); err != nil {
			panic(err) // a kind that has not the labels of its vector
		}
		q.made[k] = m
	}
	return m
}

// age frees the slots of queues of which nothing was seen for keepQueue, and ends their
// series. It is called often, and looks at the slots once in ageStep.
func (s *slots) age(now time.Time) {
	s.mu.RLock()
	early := now.Sub(s.looked) < ageStep
	s.mu.RUnlock()
	if early {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = now
	for queue, q := range s.named {
		if q.fresh.Swap(false) {
			q.seen = now // or before, which counting does not note: it has no clock
		} else if now.Sub(q.seen) >= keepQueue {
			s.end(queue, q)
		}
	}
}

// forget ends a queue's series at once.
func (s *slots) forget(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.named[queue]; q != nil {
		s.end(queue, q)
	}
}

func (s *slots) end(queue string, q *slot) {
	delete(s.named, queue)
	for k := range q.made {
		k.vec.DeleteLabelValues(k.labels(q.label)...)
	}
}
