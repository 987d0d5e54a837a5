package prove

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
)

const ms = time.Millisecond

// perfect returns a run of n jobs at 100/s, each on time.
func perfect(n int) (ids []string, arrivals []receiver.Arrival) {
	for i := range n {
		id := fmt.Sprintf("j%d", i)
		ids = append(ids, id)
		arrivals = append(arrivals, receiver.Arrival{At: time.Duration(i) * 10 * ms, ID: id, Attempt: 1, Status: 204})
	}
	return ids, arrivals
}

// accepted records jobs in one queue.
func accepted(ids []string) *acceptedJobs {
	b := newAcceptedJobs()
	for _, id := range ids {
		b.accept(id, flow{queue: "q"})
	}
	return b
}

// judged calls judge, which needs no calendar here.
// halfPast is when the arrivals of a judged run begin, in the middle of a minute.
var halfPast = time.Unix(1_790_000_010, 0)

func judged(t *testing.T, r *Report, o Options, levels []level, b *acceptedJobs, arrivals []receiver.Arrival) {
	t.Helper()
	s := &layout{levels: levels}
	if o.Hours {
		s.open = openSpans(halfPast)
	}
	if err := r.judge(o, s, b, arrivals, halfPast); err != nil {
		t.Fatal(err)
	}
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		name   string
		faults Faults
		spoil  func(ids *[]string, arrivals *[]receiver.Arrival)
		broken string // part of the verdict; empty if it holds
	}{
		{"perfect", NoFaults, nil, ""},
		{"late within slack and delta", NoFaults, func(_ *[]string, a *[]receiver.Arrival) { (*a)[7].At += 10 * ms }, ""},
		{"two late by a little more", NoFaults, func(_ *[]string, a *[]receiver.Arrival) {
			(*a)[7].At += 10*ms + 1
			(*a)[8].At += 10*ms + 1
		}, "the window law"},
		{"all of the last ten together", NoFaults, func(_ *[]string, a *[]receiver.Arrival) {
			for i := 90; i < 100; i++ {
				(*a)[i].At = 990 * ms
			}
		}, "the window law"},
		{"a pace of 1% too much", NoFaults, func(_ *[]string, a *[]receiver.Arrival) {
			for i := range *a {
				(*a)[i].At = (*a)[i].At * 98 / 100
			}
		}, "the window law"},
		{
			"lost", NoFaults, func(_ *[]string, a *[]receiver.Arrival) { *a = slices.Delete(*a, 5, 6) },
			"never arrived, such as [j5]",
		},
		{
			"lost under faults", Kill, func(_ *[]string, a *[]receiver.Arrival) { *a = slices.Delete(*a, 5, 6) },
			"never arrived",
		},
		{"twice", NoFaults, func(_ *[]string, a *[]receiver.Arrival) {
			*a = append(*a, receiver.Arrival{At: time.Second, ID: "j3"})
		}, "arrived again"},
		{"twice after a kill", Kill, func(_ *[]string, a *[]receiver.Arrival) {
			*a = append(*a, receiver.Arrival{At: time.Second, ID: "j3"})
		}, ""},
		{"twice after a restart", Restart, func(_ *[]string, a *[]receiver.Arrival) {
			*a = append(*a, receiver.Arrival{At: time.Second, ID: "j3"})
		}, "arrived again"},
		{"a stranger", NoFaults, func(_ *[]string, a *[]receiver.Arrival) { (*a)[0].ID = "who" }, "such as [who]"},
		{"nothing", NoFaults, func(ids *[]string, a *[]receiver.Arrival) { *ids, *a = nil, nil }, "proves nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ids, arrivals := perfect(100)
			if tt.spoil != nil {
				tt.spoil(&ids, &arrivals)
			}
			r := Report{Faults: tt.faults, Injected: 1, ended: time.Minute}
			judged(
				t, &r, Options{Rate: leaky.PerSecond(100), Slack: 5 * ms, Delta: 5 * ms, Faults: tt.faults}, nil, accepted(ids),
				arrivals,
			)
			said := strings.Join(r.Broken, "; ")
			if r.Held != (tt.broken == "") || !strings.Contains(said, tt.broken) {
				t.Errorf("held %v: %s; want %q", r.Held, said, tt.broken)
			}
		})
	}
}

func TestNoFaultIsNoProof(t *testing.T) {
	ids, arrivals := perfect(10)
	r := Report{Faults: Kill, ended: time.Minute}
	judged(t, &r, Options{Rate: leaky.PerSecond(100), Faults: Kill}, nil, accepted(ids), arrivals)
	if r.Held || !strings.Contains(r.Broken[0], "no fault was injected") {
		t.Errorf("held %v: %v", r.Held, r.Broken)
	}
}

func TestSettle(t *testing.T) {
	_, arrivals := perfect(3)
	a := Settle([]string{"j0", "j1", "j1", "j7"}, append(arrivals, arrivals[0], arrivals[0]))
	if a.Accepted != 3 || a.Delivered != 2 || a.Twice != 2 || a.Lost != 1 || a.Strangers != 1 {
		t.Errorf("%+v", a)
	}
	if fmt.Sprint(a.LostIDs, a.StrangerIDs) != "[j7] [j2]" {
		t.Errorf("lost %v, strangers %v", a.LostIDs, a.StrangerIDs)
	}
}

func TestPicture(t *testing.T) {
	ids, arrivals := perfect(1000)
	r := Report{
		Rate: "100/s", Faults: Kill, Injected: 1, perSecond: 100, ended: 10 * time.Second,
		marks: []Mark{{At: 5 * time.Second, Fault: Kill}},
	}
	o := Options{Rate: leaky.PerSecond(100), Faults: Kill}
	judged(t, &r, o, nil, accepted(ids), arrivals)
	got := r.Picture(62)
	for _, want := range []string{"100/s", "K", "10s", "a column is 200ms", "████"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, " ") && len([]rune(line)) > 62+30 {
			t.Errorf("a line of %d", len([]rune(line)))
		}
	}
	if got := (&Report{}).Picture(80); got != "nothing arrived\n" {
		t.Errorf("%q", got)
	}
}
