package prove

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestLimitFlag(t *testing.T) {
	var l Limit
	if err := l.UnmarshalText([]byte("tokens=6000/m")); err != nil || l.String() != "tokens=100/s" {
		t.Error(l, err)
	}
	for _, text := range []string{"", "tokens", "=5/s", "jobs=5/s", "Tokens=5/s", "tokens=", "tokens=5"} {
		if err := l.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a limit", text)
		}
	}
}

// The limit is in the first queue only, and each queue with jobs bounds how many of them are in flight.
func TestLimitOfLayout(t *testing.T) {
	o := Options{Rate: leaky.PerSecond(100), Children: 2, Limit: Limit{"tokens", leaky.PerSecond(10_000)}}
	var err error
	if o.limit, err = o.plan(); err != nil {
		t.Fatal(err)
	}
	s, err := newLayout(&o, "p", "http://receiver")
	if err != nil {
		t.Fatal(err)
	}
	for i, spec := range s.specs {
		var parent *queue.Spec
		if i > 0 {
			parent = &s.specs[0]
		}
		if err := spec.Validate(); err != nil {
			t.Error(err)
		}
		if (len(spec.Limits) > 0) != (parent == nil) || (spec.MaxInFlight > 0) != (parent != nil) {
			t.Errorf("%s: limits %v, %d in flight", spec.Name, spec.Limits, spec.MaxInFlight)
		}
	}
	if o.limit.mean != 200 || o.limit.underestimates() != 2*20*300 {
		t.Errorf("%+v, %d", o.limit, o.limit.underestimates())
	}
	over, under := 0, 0
	for i := range 1000 {
		charged, actual := o.limit.costs(string(rune('a'+i%26)) + strings.Repeat("x", i))
		if charged < 100 || charged > 300 || actual < charged/2 || actual > 2*charged {
			t.Fatalf("charged %d, uses %d", charged, actual)
		}
		if over++; actual > charged {
			over--
			under++
		}
	}
	if over < 200 || under < 500 {
		t.Errorf("%d cost less, %d more", over, under)
	}
	for want, wrong := range map[string]Options{
		"unlimited":      {Rate: leaky.PerSecond(100), Limit: Limit{"tokens", leaky.Unlimited}},
		"at least twice": {Rate: leaky.PerSecond(100), Limit: Limit{"tokens", leaky.PerSecond(100)}},
		"cost more than": {Rate: leaky.Ratio(1, 3600e6), Limit: Limit{"tokens", leaky.PerSecond(1_000_000)}},
		"leave queues":   {Rate: leaky.PerSecond(100), Limit: Limit{"tokens", leaky.PerSecond(1000)}, Queues: 2},
	} {
		if _, err := wrong.plan(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", wrong.Limit, err)
		}
	}
}

// Jobs that leave as the limit allows keep both laws. Jobs that leave sooner break the law of the actual costs first. A
// job that arrives again was charged its use once.
func TestJudgeLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		pace, burst float64 // of the limit
		again       int     // arrivals of each job
		broken      string
	}{
		"as allowed":    {1, 1, 1, ""},
		"a little more": {1.01, 1, 1, ""}, // jobs in flight may be underestimated
		"far more":      {1.2, 1, 1, "the window law of tokens=1000/s, actual costs"},
		"twice as much": {2, 1, 1, "the window law of tokens=1000/s, charged costs"},
		"a large burst": {1, 6, 1, "the window law of tokens=1000/s, actual costs"},
		"half":          {0.5, 0, 1, "was never used up"},
		"jobs repeated": {1, 1, 2, ""},
	} {
		o := Options{
			Rate: leaky.PerSecond(50), Slack: 5 * ms, Delta: 5 * ms, Faults: Kill, Limit: Limit{"tokens", leaky.PerSecond(1000)},
		}
		s, err := o.plan()
		if err != nil {
			t.Fatal(err)
		}
		ids, _ := perfect(1000)
		var arrivals []receiver.Arrival
		at, credit := time.Duration(0), tt.burst*float64(burstInMeans*s.mean)
		for _, id := range ids {
			charged, actual := s.costs(id)
			for n := range tt.again {
				cost := actual
				if n < tt.again-1 {
					cost = min(charged, actual)
				}
				if credit -= float64(cost); credit < 0 {
					at += time.Duration(-credit / 1000 / tt.pace * float64(time.Second))
					credit = 0
				}
				arrivals = append(arrivals, receiver.Arrival{At: at, ID: id, Kernel: true})
			}
		}
		r := &Report{Faults: Kill}
		o.limit = s
		r.judgeLimit(&o, arrivals)
		var broken []string
		r.concludeLimit(func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) })
		said := strings.Join(broken, "; ")
		if (said == "") != (tt.broken == "") || !strings.Contains(said, tt.broken) {
			t.Errorf("%s: %q, want %q; %+v", name, said, tt.broken, r.Limit)
		}
	}
}
