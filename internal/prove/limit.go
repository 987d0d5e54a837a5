package prove

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Limit is a limit in a unit, written as "tokens=10000/m". Jobs state a cost in the unit that is more or less than they
// use, and the receiver's answers state what they have used.
type Limit struct {
	Unit string
	Rate leaky.Rate
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(text []byte) error {
	unit, rate, ok := strings.Cut(string(text), "=")
	if !ok || unit == "" || unit == queue.UnitJobs || queue.ValidateUnit("", unit) != nil {
		return fmt.Errorf("%q must be a unit and its rate, such as tokens=10000/m", text)
	}
	l.Unit = unit
	return l.Rate.UnmarshalText([]byte(rate))
}

func (l Limit) String() string { return l.Unit + "=" + l.Rate.String() }

// actualHeader states what a job has used.
const actualHeader = "Penstock-Prove-Used"

// Costs are drawn from [mean/2, 3 mean/2]. A job uses from half of its cost to twice its cost.
const (
	burstInMeans = 8
	maxMean      = queue.MaxUnitCost / burstInMeans
)

// limitSpec is the limit of a run, and what its jobs cost.
type limitSpec struct {
	Limit
	mean     int64 // of the costs: so much that the limit admits half of the queue's rate
	inFlight int64 // jobs that each queue may have in flight
	queues   int64 // that share the limit
}

// plan returns the limit of a run, nil without one.
func (o *Options) plan() (*limitSpec, error) {
	if o.Limit.Unit == "" {
		return nil, nil
	}
	s := &limitSpec{Limit: o.Limit, queues: int64(max(1, o.Children))}
	s.inFlight = max(8, int64(math.Ceil(o.Rate.PerSecond()/5)))
	mean := math.Ceil(2 * o.Limit.Rate.PerSecond() / o.Rate.PerSecond())
	switch {
	case o.Limit.Rate.Unlimited():
		return nil, errors.New("limit: unlimited has no window law; give a rate")
	case o.Queues > 1:
		return nil, errors.New("limit: several independent queues share no limit; leave queues out")
	case mean < 4:
		return nil, fmt.Errorf("limit: %s must be at least twice the rate, %s; raise it, or lower the rate", o.Limit, o.Rate)
	case mean > maxMean:
		return nil, fmt.Errorf("limit: %s needs jobs that cost more than %d; lower it, or raise the rate", o.Limit,
			int64(maxMean))
	}
	s.mean = int64(mean)
	return s, nil
}

// limit is the limit in the spec of a queue.
func (s *limitSpec) limit() queue.Limit {
	return queue.Limit{Unit: s.Unit, Rate: s.Rate, Burst: burstInMeans * s.mean}
}

// costs returns what a job states as its cost, and what it uses. The receiver knows nothing but the id.
func (s *limitSpec) costs(id string) (charged, actual int64) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	n := h.Sum64()
	charged = s.mean/2 + int64(n%uint64(s.mean+1))
	n /= uint64(s.mean + 1)
	actual = max(1, charged/2+int64(n%uint64(charged+charged/2+1)))
	return max(1, charged), actual
}

// underestimates is how much jobs in flight may use beyond their costs. Earlier ones were charged that when they were
// settled.
func (s *limitSpec) underestimates() int64 {
	most := s.mean/2 + s.mean // which may use twice as much
	return s.queues * s.inFlight * most
}

// header returns the header of the answer to a job.
func (s *limitSpec) header(id string) http.Header {
	if s == nil {
		return nil
	}
	_, actual := s.costs(id)
	return http.Header{actualHeader: {strconv.FormatInt(actual, 10)}}
}

// LimitReport is the verdict on a limit in a unit.
type LimitReport struct {
	Limit string `json:"limit"`
	Burst int64  `json:"burst"`
	// Charged is the window law of the charged costs, with all refunds. Actual is that of the actual costs, which may
	// exceed them by InFlight: the most that jobs in flight may have been underestimated.
	Charged  LawReport `json:"charged"`
	Actual   LawReport `json:"actual"`
	InFlight int64     `json:"underestimates_in_flight"`
	Used     int64     `json:"used"`

	scarce bool // it delayed jobs: some window used nearly all that it allows
}

// judgeLimit judges the costs of the arrivals. A job that arrives again was not settled before, so its use was not
// charged then: only its cost was.
func (r *Report) judgeLimit(o *Options, arrivals []receiver.Arrival) {
	s := o.limit
	if s == nil {
		return
	}
	last := map[string]int{}
	for i := range arrivals {
		last[arrivals[i].ID] = i
	}
	charges, uses := make([]law.Start, len(arrivals)), make([]law.Start, len(arrivals))
	v := &LimitReport{Limit: s.String(), Burst: burstInMeans * s.mean, InFlight: s.underestimates()}
	for i, a := range arrivals {
		charged, actual := s.costs(a.ID)
		v.Used += actual
		charges[i] = law.Start{At: a.At, Cost: min(charged, actual)}
		if uses[i] = charges[i]; last[a.ID] == i {
			uses[i].Cost = actual
		}
	}
	l := law.Law{Rate: s.Rate, Burst: v.Burst, Slack: o.Slack, Delta: o.Delta}
	v.Charged = judgeStarts(l, charges)
	most := l.Judge(uses).Worst
	v.scarce = most.Starts*10 >= most.Allowed*9
	l.Burst += v.InFlight
	v.Actual = judgeStarts(l, uses)
	r.Limit = v
}

// concludeLimit adds the broken laws of the limit.
func (r *Report) concludeLimit(broken func(format string, args ...any)) {
	v := r.Limit
	if v == nil {
		return
	}
	for _, law := range []struct {
		costs string
		LawReport
	}{{"charged", v.Charged}, {"actual", v.Actual}} {
		if w := law.Worst; !law.Held {
			broken("the window law of %s, %s costs: %d in %v, from %v into the run, where %d are allowed; it needed slack + "+
				"delta of %v, but has %v%s",
				v.Limit, law.costs, w.Starts, w.Width, (w.From - r.started).Round(time.Millisecond), w.Allowed, law.Needed,
				law.Slack+law.Delta, r.stalledIn(w))
		}
	}
	if !v.scarce {
		broken("the limit %s was never used up, which proves nothing about it", v.Limit)
	}
}
