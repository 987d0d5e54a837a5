package prove

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestVerdictOfQuota(t *testing.T) {
	for _, tt := range []struct {
		name   string
		late   time.Duration // of the jobs in the second window
		n      int           // in the second window, which begins after 30 s
		broken string
	}{
		{"as many as allowed", 30 * time.Second, 200, ""},
		{"one too many", 30*time.Second + 20*ms, 201, "the window law of the quota 200/m"},
		{"a window begins too soon", 29 * time.Second, 100, "the window law of the quota 200/m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ids, arrivals := perfect(200 + tt.n)
			for i := 200; i < len(arrivals); i++ {
				arrivals[i].At += tt.late - 2*time.Second
			}
			r := Report{Faults: NoFaults, ended: 2 * time.Minute}
			o := Options{
				Rate: leaky.PerSecond(100), Slack: 5 * ms, Delta: 5 * ms, Faults: NoFaults, Quota: queue.Quota{Max: 200, Per: "m"},
			}
			judged(t, &r, o, nil, accepted(ids), arrivals)
			said := strings.Join(r.Broken, "; ")
			if r.Held != (tt.broken == "") || !strings.Contains(said, tt.broken) {
				t.Errorf("held %v: %s, %+v; want %q", r.Held, said, r.Quota, tt.broken)
			}
		})
	}
	ids, arrivals := perfect(100)
	r := Report{Faults: NoFaults, ended: 2 * time.Minute}
	judged(
		t, &r, Options{Rate: leaky.PerSecond(100), Faults: NoFaults, Quota: queue.Quota{Max: 200, Per: "m"}}, nil,
		accepted(ids), arrivals,
	)
	if r.Held || !strings.Contains(r.Broken[0], "never used up") {
		t.Errorf("%v", r.Broken)
	}
}

// A ramp and hours are settings of the first queue only, as the flags say.
func TestMinutesOfLayout(t *testing.T) {
	o := Options{Rate: leaky.PerSecond(100), Children: 2, Ramp: []int64{300, 900}, Hours: true}
	s, err := newLayout(&o, "p", "http://receiver")
	if err != nil {
		t.Fatal(err)
	}
	for i, spec := range s.specs {
		if err := spec.Validate(); err != nil {
			t.Error(err)
		}
		if spec.Hours.On() != (i == 0) || (len(spec.Limits) == 1) != (i == 0) {
			t.Errorf("%s has the limits %v and the hours %s", spec.Name, spec.Limits, spec.Hours)
		}
	}
	if l := s.specs[0].Limits[0].String(); l != "300/m ramp 300 900 idle hold" {
		t.Error(l)
	}
	schedule, err := s.specs[0].Hours.Schedule("hours")
	if err != nil {
		t.Fatal(err)
	}
	for n := range int(maxHoursRun/time.Minute) + 2 {
		at := s.open[0].from.Add(time.Duration(n)*time.Minute + 30*time.Second)
		c, _ := schedule.Calendar(at)
		now := leaky.Instant(at.UnixMicro())
		if open := c.Next(now) == now; open != (n%2 == 0) {
			t.Errorf("minute %d is open: %v", n, open)
		}
	}
}

func TestMinutesAreValidated(t *testing.T) {
	o := Options{Rate: leaky.PerSecond(100), Drainers: 1, Faults: NoFaults, Duration: 121 * time.Second}
	for want, change := range map[string]func(*Options){
		"longer than 2m0s":                 func(o *Options) { o.Hours, o.Duration = true, 2*time.Minute },
		"duration: 2m0s must be longer":    func(o *Options) { o.Ramp, o.Duration = []int64{1, 2}, 2*time.Minute },
		"at most 45m0s":                    func(o *Options) { o.Hours, o.Duration = true, time.Hour },
		"ramp: [5] must be from 2 to 32":   func(o *Options) { o.Ramp = []int64{5} },
		"ramp: [5 5] must be from 2 to 32": func(o *Options) { o.Ramp = []int64{5, 5} },
		"ramp: [5 4] must be from 2 to 32": func(o *Options) { o.Ramp = []int64{5, 4} },
		"ramp: [0 4] must be from 2 to 32": func(o *Options) { o.Ramp = []int64{0, 4} },
		"leave out quota": func(o *Options) {
			o.Ramp, o.Quota = []int64{1, 2}, queue.Quota{Max: 1, Per: "m"}
		},
		"children, quota, ramp, hours or ref": func(o *Options) { o.Hours, o.Queues = true, 2 },
		"have no children, quota, ramp":       func(o *Options) { o.Ramp, o.Queues = []int64{1, 2}, 2 },
	} {
		wrong := o
		if change(&wrong); wrong.Validate() == nil || !strings.Contains(wrong.Validate().Error(), want) {
			t.Errorf("%v, want %s", wrong.Validate(), want)
		}
	}
	if o.Ramp, o.Hours = []int64{1, 2}, true; o.Validate() != nil {
		t.Error(o.Validate())
	}
}

// minutes returns arrivals of consecutive minutes, from 100 ms after each begins; the first begins 30 s into the run.
func minutes(counts ...int) (ids []string, arrivals []receiver.Arrival) {
	ids, arrivals = perfect(slices.Max(counts) * len(counts))
	n := 0
	for m, count := range counts {
		for k := range count {
			arrivals[n].At = 30*time.Second + time.Duration(m)*time.Minute + time.Duration(10+k)*10*ms
			n++
		}
	}
	return ids[:n], arrivals[:n]
}

func TestVerdictOfRamp(t *testing.T) {
	for _, tt := range []struct {
		counts []int
		late   time.Duration // of the first job
		broken string
	}{
		{[]int{100, 200, 300, 300}, 0, ""},
		{[]int{100, 99, 300, 300}, 0, ""},
		{[]int{101, 200, 300, 300}, 0, "101 starts where 100 are allowed"},
		{[]int{100, 201, 300, 300}, 0, "in each window [0 100 201 300 300], where [100 100 200 300 300] are allowed"},
		{[]int{100, 200, 300, 301}, 0, "901 starts where 900 are allowed"},
		{[]int{100, 0, 300, 0}, 0, "300 starts where 200 are allowed"}, // the second minute does not count
		{[]int{100, 0, 200, 300}, 0, ""},
		{[]int{0, 101, 0, 0}, 0, "101 starts where 100 are allowed"},
		{[]int{1, 200, 300, 0}, 59*time.Second + 905*ms, ""}, // which may have left in the first minute
		{[]int{1, 201, 300, 0}, 59*time.Second + 915*ms, "the window law of the quota 100/m ramp 100 200 300 idle hold"},
		{[]int{100, 150, 250, 100}, 0, "was never used up after it had grown"},
	} {
		ids, arrivals := minutes(tt.counts...)
		arrivals[0].At += tt.late
		slices.SortFunc(arrivals, func(a, b receiver.Arrival) int { return int(a.At - b.At) })
		r := Report{Faults: NoFaults, ended: 10 * time.Minute}
		o := Options{
			Rate: leaky.PerSecond(100), Slack: 5 * ms, Delta: 5 * ms, Faults: NoFaults, Ramp: []int64{100, 200, 300},
		}
		judged(t, &r, o, nil, accepted(ids), arrivals)
		said := strings.Join(r.Broken, "; ")
		if r.Held != (tt.broken == "") || !strings.Contains(said, tt.broken) {
			t.Errorf("%v: held %v: %s, %+v; want %q", tt.counts, r.Held, said, r.Quota, tt.broken)
		}
	}
}

func TestVerdictOfHours(t *testing.T) {
	for _, tt := range []struct {
		counts []int
		late   time.Duration // of the last job
		broken string
	}{
		{[]int{0, 100, 0, 50}, 0, ""},
		{[]int{0, 100, 0, 50}, time.Minute - 590*ms + 5*ms, ""}, // within slack and delta
		{[]int{0, 100, 0, 50}, time.Minute - 590*ms + 15*ms, "1 starts while closed, the first 4m30"},
		{[]int{0, 100, 3, 50}, 0, "3 starts while closed, the first 2m30.1s into the run; in each open minute [0 100 50]"},
		{[]int{0, 100, 0, 0}, 0, "did not close and open again"},
	} {
		ids, arrivals := minutes(tt.counts...)
		arrivals[len(arrivals)-1].At += tt.late
		r := Report{Faults: NoFaults, ended: 10 * time.Minute}
		o := Options{Rate: leaky.PerSecond(100), Slack: 5 * ms, Delta: 5 * ms, Faults: NoFaults, Hours: true}
		judged(t, &r, o, nil, accepted(ids), arrivals)
		said := strings.Join(r.Broken, "; ")
		if r.Held != (tt.broken == "") || !strings.Contains(said, tt.broken) {
			t.Errorf("%v: held %v: %s, %+v; want %q", tt.counts, r.Held, said, r.Hours, tt.broken)
		}
	}
}
