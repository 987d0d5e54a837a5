package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultMaxQueues is how many queues have series of their own, and how many more have them because something rare
// happened to them, which an alert may be about.
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

// slots are the counters and histograms that are labelled by queue, or by rule. The first so many queues have series of
// their own, and as many more get them when something rare is counted of them. All others share one: what is rare is
// in that only when there is no room for more.
type slots struct {
	most  int    // of either sort
	zeros []kind // series that begin with a slot, so that their first count is seen as an increase

	mu     sync.RWMutex // held while counting, so that no series is ended under somebody who counts in it
	looked time.Time    // when age last looked
	named  map[string]*slot
	rare   int // how many of those are there for more than what is usual
	other  *slot
}

// claim says whether a queue gets a slot by what is counted of it.
type claim int

const (
	none    claim = iota // it may be no queue at all
	usual                // every queue does that: the first ones get a slot
	failing              // a job may still succeed: at most half of the slots for what is rare are for that
	rare                 // somebody may be alerted of it
)

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
	least claim // only that, or more, keeps it
	made  map[kind]prometheus.Metric
	fresh atomic.Bool // something that keeps it was counted since age last looked
	seen  time.Time   // when age last found it fresh
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

// add counts what every queue does, for one that is known to exist.
func (s *slots) add(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, usual)
}

// addRare counts what somebody may be alerted of, for a queue that is known to exist.
func (s *slots) addRare(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, rare)
}

// addFailing counts what comes before something rare, for a queue that is known to exist.
func (s *slots) addFailing(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, failing)
}

// addKnown counts for what may be no queue at all: it gets no slot by that.
func (s *slots) addKnown(queue string, vec *prometheus.CounterVec, value string, n float64) {
	s.count(queue, kind{vec.MetricVec, value}, n, none)
}

// observe adds to a histogram of what is known to exist.
func (s *slots) observe(queue string, vec *prometheus.HistogramVec, value string, v float64) {
	s.count(queue, kind{vec.MetricVec, value}, v, usual)
}

func (s *slots) count(queue string, k kind, n float64, by claim) {
	s.mu.RLock()
	q := s.named[queue]
	if q == nil && s.grants(by) == none {
		q = s.other
	}
	if q != nil {
		if c := q.made[k]; c != nil {
			q.touch(by)
			put(c, n)
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
	put(q.metric(k), n)
}

// grants says what would keep the slot that a queue without one gets; none if it gets none. It is called with mu held.
func (s *slots) grants(by claim) claim {
	switch {
	case by != none && len(s.named)-s.rare < s.most:
		return usual
	case by == rare && s.rare < s.most, by == failing && s.rare < (s.most+1)/2:
		return by
	}
	return none
}

// touch notes that something was counted. Most often that is known, and need not be written by everybody.
func (q *slot) touch(by claim) {
	if (by >= q.least || q.least == usual) && !q.fresh.Load() {
		q.fresh.Store(true)
	}
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

// age frees the slots of queues of which nothing that keeps them was counted for keepQueue, and ends their
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
	if q.least > usual {
		s.rare--
	}
	for k := range q.made {
		k.vec.DeleteLabelValues(k.labels(q.label)...)
	}
}
