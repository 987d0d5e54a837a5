package replay

import (
	"math"
	"math/bits"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Queue is a queue that is tried: its rate, burst and capacity.
type Queue struct {
	queue.Spec
	Label string
}

// queueSim is a queue at work, with a drainer that is never late and takes no time. A job has left from its departure
// on.
type queueSim struct {
	queue      *Queue
	pacer      leaky.Pacer
	bucket     leaky.Bucket
	departures []leaky.Instant // of the jobs that wait, in their order
	head       int

	accepted, refused, never int64
	deepest                  int64
	last                     leaky.Instant // the last departure
	waits                    waits
}

func newQueueSim(q *Queue) *queueSim {
	// All that are accepted are granted at once, so that each departure is known on arrival.
	return &queueSim{queue: q, pacer: leaky.Pacer{Rate: q.Rate, Burst: q.Burst, Horizon: math.MaxInt64}}
}

// arrive appends a job, and reports whether there was room.
func (s *queueSim) arrive(at leaky.Instant, cost int64) bool {
	if cost > leaky.MaxCost {
		s.never++
		s.refused++
		return false
	}
	d, granted := leaky.Instant(0), false
	if s.depth(at) < s.queue.Capacity {
		d, granted = s.pacer.Take(&s.bucket, at, cost)
	}
	if !granted { // there is no room, or it would leave in 292 years
		s.refused++
		return false
	}
	s.accepted++
	s.last = d
	s.waits.add(d.Sub(at))
	if d > at {
		s.departures = append(s.departures, d)
		s.deepest = max(s.deepest, int64(len(s.departures)-s.head))
	}
	return true
}

// depth is how many wait.
func (s *queueSim) depth(now leaky.Instant) int64 {
	for s.head < len(s.departures) && s.departures[s.head] <= now {
		s.head++
	}
	if s.head > 0 && s.head >= len(s.departures)-s.head {
		s.departures = s.departures[:copy(s.departures, s.departures[s.head:])]
		s.head = 0
	}
	return int64(len(s.departures) - s.head)
}

// QueueOutcome is what would have become of the requests as jobs of a queue.
type QueueOutcome struct {
	Queue    string  `json:"queue"`
	Requests int64   `json:"requests"`
	Accepted int64   `json:"accepted"`
	Refused  int64   `json:"refused"`
	Share    float64 `json:"share_refused"`
	// Never is how many of those refused cost more than a job may.
	Never   int64          `json:"can_never_pass"`
	Deepest int64          `json:"deepest"`
	WaitP50 queue.Duration `json:"wait_p50"`
	WaitP99 queue.Duration `json:"wait_p99"`
	WaitMax queue.Duration `json:"wait_max"`
	// LastLeft is missing if none was accepted, and behind the year 9999.
	LastLeft time.Time `json:"last_left,omitzero"`
}

func (s *queueSim) outcome() QueueOutcome {
	o := QueueOutcome{
		Queue: s.queue.Label, Requests: s.accepted + s.refused, Accepted: s.accepted, Refused: s.refused, Never: s.never,
		Deepest: s.deepest,
		WaitP50: s.waits.quantile(0.5), WaitP99: s.waits.quantile(0.99), WaitMax: queue.Duration(s.waits.max),
	}
	if o.Requests > 0 {
		o.Share = float64(o.Refused) / float64(o.Requests)
	}
	// JSON has no instant behind the year 9999.
	if left := s.last.Time().UTC(); s.accepted > 0 && left.Year() <= 9999 {
		o.LastLeft = left
	}
	return o
}

// waits are counted in classes, each at most 1/64 wider than it is long, so that a quantile is at most 1.6 % too high,
// and memory is the same for any number.
type waits struct {
	classes [64 << 6]int64
	n       int64
	max     time.Duration
}

func (w *waits) add(d time.Duration) {
	w.classes[classOf(uint64(d.Microseconds()))]++
	w.n++
	w.max = max(w.max, d)
}

// classOf keeps the first seven bits of a number.
func classOf(us uint64) int {
	shift := max(bits.Len64(us)-7, 0)
	return shift<<6 + int(us>>shift)
}

// quantile is the upper end of the class in which it is.
func (w *waits) quantile(q float64) queue.Duration {
	rank := int64(math.Ceil(q * float64(w.n)))
	for c, n := range w.classes {
		if rank -= n; rank <= 0 && n > 0 {
			shift := max(c>>6-1, 0)
			top := (uint64(c-shift<<6)+1)<<shift - 1
			return queue.Duration(min(time.Duration(top)*time.Microsecond, w.max))
		}
	}
	return 0
}
