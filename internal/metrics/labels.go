package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/drain"
)

// DefaultMaxQueues is the default number of queues with series of their own. As many more queues get series after a
// rare event that an alert may need.
const DefaultMaxQueues = 200

// Other is the queue label of all other queues. No queue can have this name.
const Other = "_other"

const (
	// keepQueue is how long an inactive queue keeps its series and slot. Queues come and go, and a process learns of
	// few deletions: without this limit, all later queues would share one label forever.
	keepQueue = time.Hour
	// ageStep is the precision of keepQueue.
	ageStep = time.Minute
)

// slots holds the counters and histograms that are labeled by queue, or by rule. The first `most` queues have series of
// their own. As many more get series when a rare event is counted for them. All others share one label, which counts
// rare events only when no slot is free.
type slots struct {
	most  int    // maximum number of slots of either sort
	zeros []kind // series created with a slot, so that Prometheus sees their first count as an increase

	mu     sync.RWMutex // held while counting, so that no series ends during a count
	looked time.Time    // the last check of age
	named  map[string]*slot
	rare   int // number of slots in named that exist because of a rare event
	other  *slot
}

// claim says whether an event gives its queue a slot.
type claim int

const (
	none    claim = iota // no slot: the queue may not exist
	usual                // an event of any queue: the first queues get a slot
	failing              // a failed attempt: may use half of the slots for rare events
	rare                 // an event that an alert may need
)

// kind is a counter or histogram of a queue: a vector, and the value of its second label, "" if it has no second label.
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

// slot holds the series of one queue label.
type slot struct {
	label string
	least claim // the least event that keeps the slot
	made  map[kind]prometheus.Metric
	fresh atomic.Bool // an event that keeps the slot was counted since the last check of age
	seen  time.Time   // the last check that found it fresh
}

func newSlot(label string, least claim) *slot {
	q := &slot{label: label, least: least, made: map[kind]prometheus.Metric{}}
	q.fresh.Store(true)
	return q
}

func newSlots(most int, zeros ...kind) *slots {
	if most <= 0 {
		most = DefaultMaxQueues
	}
	return &slots{most: most, zeros: zeros, named: map[string]*slot{}, other: newSlot(Other, none)}
}

// add counts a usual event of a queue that is known to exist.
func (s *slots) add(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, nil, usual)
}

// addRare counts an event that an alert may need, of a queue that is known to exist.
func (s *slots) addRare(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, nil, rare)
}

// addFailing counts a failed attempt of a queue that is known to exist.
func (s *slots) addFailing(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, nil, failing)
}

// addKnown counts an event of a queue that may not exist. The queue gets no slot.
func (s *slots) addKnown(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, nil, none)
}

// observe adds to a histogram of a queue or rule that is known to exist.
func (s *slots) observe(queue string, vec *prometheus.HistogramVec, value string, v float64) {
	s.count(queue, kind{vec.MetricVec, value}, v, nil, usual)
}

// observeJob adds a duration to a histogram of a job's queue, with the job's trace as an exemplar.
func (s *slots) observeJob(job *drain.Job, vec *prometheus.HistogramVec, took time.Duration) {
	s.count(job.Queue, kind{vec.MetricVec, ""}, took.Seconds(), exemplarOfJob(job), usual)
}

func (s *slots) count(queue string, k kind, n float64, exemplar prometheus.Labels, by claim) {
	s.mu.RLock()
	q := s.named[queue]
	if q == nil && s.grants(by) == none {
		q = s.other
	}
	if q != nil {
		if c := q.made[k]; c != nil {
			q.touch(by)
			put(c, n, exemplar)
			s.mu.RUnlock()
			return
		}
	}
	s.mu.RUnlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	q = s.named[queue]
	switch least := s.grants(by); {
	case q != nil:
	case least == none:
		q = s.other
		if by != none {
			s.begin(q)
		}
	default:
		q = newSlot(queue, least)
		s.named[queue] = q
		if least > usual {
			s.rare++
		}
		s.begin(q)
	}
	q.touch(by)
	put(q.metric(k), n, exemplar)
}

// grants returns the least claim of the slot that an event gives to a queue without one, or none. mu must be held.
func (s *slots) grants(by claim) claim {
	switch {
	case by != none && len(s.named)-s.rare < s.most:
		return usual
	case by == rare && s.rare < s.most, by == failing && s.rare < (s.most+1)/2:
		return by
	}
	return none
}

// touch marks the slot as fresh. It loads first: mostly the slot is fresh already, and writing would contend.
func (q *slot) touch(by claim) {
	if (by >= q.least || q.least == usual) && !q.fresh.Load() {
		q.fresh.Store(true)
	}
}

func put(m prometheus.Metric, v float64, exemplar prometheus.Labels) {
	switch m := m.(type) {
	case prometheus.Counter:
		m.Add(v)
	case prometheus.Histogram:
		observe(m, v, exemplar)
	}
}

// begin creates the series in zeros. mu must be held.
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
			panic(err) // the kind does not have the labels of its vector
		}
		q.made[k] = m
	}
	return m
}

// age frees the slots that no event has kept for keepQueue, and ends their series. It can be called often: it checks
// the slots once per ageStep.
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
			q.seen = now // or somewhat earlier: counting does not read the clock
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
	if q.least > usual {
		s.rare--
	}
	for k := range q.made {
		k.vec.DeleteLabelValues(k.labels(q.label)...)
	}
}
