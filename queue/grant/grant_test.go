package grant

import (
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

const ms = time.Millisecond

// answer is one that came now after a round trip of trip, with a job of each queue that departs in so long.
func answer(trip time.Duration, jobs ...queue.Reservation) Answer {
	a := Answer{At: time.Now(), Trip: trip, Reserved: queue.Reserved{Jobs: jobs}}
	for _, j := range jobs {
		departs := a.At.Add(j.In - trip)
		a.Windows = append(a.Windows, Window{Departs: departs, Earliest: a.At.Add(j.In), LeaseEnd: departs.Add(j.Lease)})
	}
	return a
}

func in(d time.Duration, name string) queue.Reservation {
	return queue.Reservation{Job: queue.Job{Queue: name, ID: "a"}, In: d, Lease: time.Minute}
}

func specOf(name string) *queue.Spec {
	switch name {
	case "unknown":
		return nil
	case "unlimited":
		return &queue.Spec{Rate: leaky.Unlimited, Slack: unit.Duration(5 * ms)}
	}
	return &queue.Spec{Rate: leaky.PerSecond(100), Slack: unit.Duration(10 * ms)}
}

func TestBlurred(t *testing.T) {
	for _, c := range []struct {
		name  string
		trip  time.Duration
		jobs  []queue.Reservation
		want  bool
		until time.Duration // from now
	}{
		{"a fast answer", ms / 2, []queue.Reservation{in(time.Second, "paced")}, false, 0},
		{"half of the slack is left", 5 * ms, []queue.Reservation{in(time.Second, "paced")}, false, 0},
		{"less is left", 6 * ms, []queue.Reservation{in(time.Second, "paced")}, true, time.Second - ms},
		{"nothing is left", 20 * ms, []queue.Reservation{in(time.Second, "paced")}, true, time.Second - 10*ms},
		{"of a queue that is not known", 4 * ms, []queue.Reservation{in(time.Second, "unknown")}, true, time.Second - ms},
		{"no time to ask again", 6 * ms, []queue.Reservation{in(6*ms, "paced")}, false, 0},
		{
			"one that can start departs too soon", 6 * ms,
			[]queue.Reservation{in(time.Second, "paced"), in(7*ms, "paced")},
			false, 0,
		},
		{"without a rate", 6 * ms, []queue.Reservation{in(time.Second, "unlimited")}, false, 0},
	} {
		a := answer(c.trip, c.jobs...)
		until, got := a.blurred(specOf)
		if got != c.want || got && until.Sub(a.At) != c.until {
			t.Errorf("%s: %v until %v, want %v until %v", c.name, got, until.Sub(a.At), c.want, c.until)
		}
	}
}

// Two answers to one request are both true, and what the second leaves out is gone.
func TestJoin(t *testing.T) {
	first := answer(8*ms, in(20*ms, "a"), in(20*ms, "b"))
	second := answer(2*ms, in(12*ms, "a"))
	second.Windows[0].Departs = first.Windows[0].Departs.Add(5 * ms)
	second.Windows[0].Earliest = first.Windows[0].Earliest.Add(-ms)
	join(&first, &second)
	if got := second.Windows[0]; len(second.Windows) != 1 || got.Earliest.Sub(got.Departs) != 2*ms {
		t.Errorf("%+v", second.Windows)
	}
	third := answer(8*ms, in(4*ms, "a"))
	third.Windows[0].Departs = second.Windows[0].Departs.Add(-ms)
	third.Windows[0].Earliest = second.Windows[0].Earliest.Add(ms)
	join(&second, &third)
	if third.Windows[0].Departs != second.Windows[0].Departs || third.Windows[0].Earliest != second.Windows[0].Earliest {
		t.Errorf("%+v, want %+v", third.Windows, second.Windows)
	}
}

func TestWindowEndsWithItsLease(t *testing.T) {
	now := time.Now()
	w := Window{Departs: now, LeaseEnd: now.Add(time.Second)}
	for slack, want := range map[time.Duration]time.Duration{
		5 * ms: 5 * ms, time.Second: time.Second, time.Minute: time.Second,
	} {
		if got := w.Latest(slack).Sub(now); got != want {
			t.Errorf("slack %v: %v, want %v", slack, got, want)
		}
	}
	if s := Slack(specOf("unlimited")); s != time.Second {
		t.Errorf("without a rate: %v", s)
	}
	if s := Slack(specOf("paced")); s != 10*ms {
		t.Errorf("with a rate: %v", s)
	}
}

func TestBackoff(t *testing.T) {
	var b Backoff
	for _, n := range []int{10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
		most := time.Duration(n) * time.Millisecond
		if got := b.Next(); got < most/2 || got > most {
			t.Errorf("%v, want %v at most", got, most)
		}
	}
}
