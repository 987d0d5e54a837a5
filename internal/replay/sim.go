package replay

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
	"github.com/penstock/penstock/queue/unit"
)

// Queue is a queue to try, with its rate, burst and capacity.
type Queue struct {
	queue.Spec
	Label string
}

// queueSim simulates a queue on the engines' machine, in the time of the log, with an ideal drainer that is never late.
// A job has left at its departure.
type queueSim struct {
	queue   *Queue
	machine *machine.Machine
	request uint64
	arrived []leaky.Instant     // arrivals of jobs that have no departure yet, in order
	granted []machine.Departure // jobs that have not left yet, in order
	asks    leaky.Instant       // time of the drainer's next request; endOfTime if no job waits

	accepted, refused, never int64
	left                     int64
	deepest                  int64
	last                     leaky.Instant // the last departure
	waits                    waits
}

// The machine starts at an instant before all instants of logs; it cannot be 0, which the machine treats as unset.
// endOfTime is after the year 9999.
const (
	logsBegin = leaky.Instant(100 * 366 * 86_400_000_000)
	endOfTime = leaky.Instant(1 << 60)
)

func newQueueSim(q *Queue) (*queueSim, error) {
	spec := queue.Spec{
		Name: "q", Rate: q.Rate, Burst: q.Burst, Capacity: q.Capacity,
		Retention: queue.Retention{For: unit.Duration(time.Second), Max: 1},
		Deferred:  queue.Deferral{MaxAge: unit.Duration(time.Second)},
	}
	text, err := machine.NewSpecText(spec)
	if err != nil {
		return nil, err
	}
	s := &queueSim{queue: q, machine: machine.New(1), asks: endOfTime}
	if _, _, err = s.machine.Put(1, audit.Actor{}, text, queue.AnyRevision); err != nil {
		return nil, err
	}
	s.commit(1)
	return s, nil
}

// commit moves jobs into their lane, as after a commit; nothing is stored.
func (s *queueSim) commit(now leaky.Instant) {
	if c := s.machine.Collect(now); c != nil {
		s.machine.Durable(c.Number, now)
	}
	s.machine.Signals()
}

// arrive appends a job, and reports whether there was room.
func (s *queueSim) arrive(at leaky.Instant, cost int64) bool {
	s.advance(at)
	now := at + logsBegin
	a := machine.NewAppending([]queue.Job{{Queue: "q", ID: strconv.FormatInt(s.accepted, 36), Cost: cost}}, false)
	s.machine.Append(now, a)
	s.commit(now)
	if a.Answers[0].Outcome != queue.Accepted { // no room, or it costs more than a job may
		if cost > leaky.MaxCost {
			s.never++
		}
		s.refused++
		return false
	}
	s.accepted++
	s.arrived = append(s.arrived, at)
	s.asks = min(s.asks, max(now, s.next(now)))
	s.advance(at)
	s.deepest = max(s.deepest, s.accepted-s.left)
	return true
}

// next returns when the drainer asks for the next departure, early enough to get it in time.
func (s *queueSim) next(now leaky.Instant) leaky.Instant {
	i, err := s.machine.Get(now, "q")
	if err != nil || i.Waiting == 0 {
		return endOfTime
	}
	return max(now, leaky.Instant(i.Next.UnixMicro()).Add(-queue.Horizon))
}

// depth returns the number of waiting jobs.
func (s *queueSim) depth(now leaky.Instant) int64 {
	s.advance(now)
	return s.accepted - s.left
}

// advance lets the drainer work until an instant.
func (s *queueSim) advance(until leaky.Instant) {
	for until += logsBegin; ; {
		if at := s.asks; at <= until && at < endOfTime {
			s.settle(at)
			s.reserve(at)
			continue
		}
		s.settle(until)
		return
	}
}

// reserve requests departures.
func (s *queueSim) reserve(now leaky.Instant) {
	s.request++
	g, err := s.machine.Reserve(now, queue.ReserveRequest{
		Client: queue.Client{ID: "replay"}, Number: s.request, Max: queue.MaxReserve,
	})
	if err != nil { // the request is always the same and was validated
		s.asks = endOfTime
		return
	}
	leases := g.Leases()
	for i, d := range leases {
		s.last = d.At - logsBegin
		s.waits.add(s.last.Sub(s.arrived[i]))
	}
	s.granted, s.arrived = append(s.granted, leases...), s.arrived[len(leases):]
	if s.asks = s.next(now); len(leases) == 0 {
		s.asks = max(s.asks, now.Add(time.Millisecond))
	}
}

// settle delivers the jobs that have left.
func (s *queueSim) settle(now leaky.Instant) {
	n := 0
	for n < len(s.granted) && s.granted[n].At <= now {
		n++
	}
	if n == 0 {
		return
	}
	ends := make([]queue.Settlement, n)
	for i, d := range s.granted[:n] {
		ends[i] = queue.Settlement{Lease: d.Lease, Verdict: queue.Deliver}
	}
	s.machine.Settle(now, ends)
	s.commit(now)
	s.granted = slices.Delete(s.granted, 0, n)
	s.left += int64(n)
}

// QueueOutcome is the outcome of the requests as jobs of a queue.
type QueueOutcome struct {
	Queue    string  `json:"queue"`
	Requests int64   `json:"requests"`
	Accepted int64   `json:"accepted"`
	Refused  int64   `json:"refused"`
	Share    float64 `json:"share_refused"`
	// Never is the number of refused requests that cost more than a job may.
	Never   int64         `json:"can_never_pass"`
	Deepest int64         `json:"deepest"`
	WaitP50 unit.Duration `json:"wait_p50"`
	WaitP99 unit.Duration `json:"wait_p99"`
	WaitMax unit.Duration `json:"wait_max"`
	// LastLeft is missing if no job was accepted, or after the year 9999.
	LastLeft time.Time `json:"last_left,omitzero"`
}

// outcome lets all waiting jobs leave and returns the outcome. An error of check ends it.
func (s *queueSim) outcome(check func() error) (QueueOutcome, error) {
	for n := 0; s.asks < endOfTime; n++ {
		if n%checkEvery == 0 {
			if err := check(); err != nil {
				return QueueOutcome{}, err
			}
		}
		s.advance(s.asks - logsBegin)
	}
	s.advance(endOfTime - logsBegin)
	o := QueueOutcome{
		Queue: s.queue.Label, Requests: s.accepted + s.refused, Accepted: s.accepted, Refused: s.refused, Never: s.never,
		Deepest: s.deepest,
		WaitP50: s.waits.quantile(0.5), WaitP99: s.waits.quantile(0.99), WaitMax: unit.Duration(s.waits.max),
	}
	if o.Requests > 0 {
		o.Share = float64(o.Refused) / float64(o.Requests)
	}
	// JSON has no instant after the year 9999.
	if left := s.last.Time().UTC(); s.accepted > 0 && left.Year() <= 9999 {
		o.LastLeft = left
	}
	return o, nil
}

// waits counts waiting times in classes, each at most 1/64 wider than its values. So a quantile is at most 1.6 % too
// high, and memory is constant.
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

// quantile returns the upper end of the quantile's class.
func (w *waits) quantile(q float64) unit.Duration {
	rank := int64(math.Ceil(q * float64(w.n)))
	for c, n := range w.classes {
		if rank -= n; rank <= 0 && n > 0 {
			shift := max(c>>6-1, 0)
			top := (uint64(c-shift<<6)+1)<<shift - 1
			return unit.Duration(min(time.Duration(top)*time.Microsecond, w.max))
		}
	}
	return 0
}
