package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/queue/redisq"
)

var noon = time.Date(2026, 1, 14, 12, 0, 0, 0, time.UTC)

// What another clock showed between two instants may have been any of this machine's between those.
func TestReading(t *testing.T) {
	for _, c := range []struct{ time, after, want time.Duration }{
		{0, 0, 0},
		{100, 200, 0},
		{200, 200, 0},
		{201, 200, 1},
		{-1, 200, -1},
		{time.Hour, time.Second, time.Hour - time.Second},
	} {
		if got := (reading{noon.Add(c.time), noon, noon.Add(c.after)}).ahead(); got != c.want {
			t.Errorf("%v within %v: ahead by %v, want %v", c.time, c.after, got, c.want)
		}
	}
}

// said is what a check finds, a line each.
func said(p *Patient, check string) string {
	if p.API == nil && p.Unreached == nil {
		p.Unreached = errors.New("nobody is there")
	}
	var b strings.Builder
	for _, f := range Examine(context.Background(), p) {
		if f.Check == check {
			fmt.Fprintf(&b, "%s: %s [%s]\n", f.Verdict, f.What, f.Do)
		}
	}
	return b.String()
}

func TestClock(t *testing.T) {
	for skew, want := range map[time.Duration]string{
		0:                      "ok: this machine and 2 other clocks agree within 1s []\n",
		500 * time.Millisecond: "ok: this machine and 2 other clocks agree within 1s []\n",
		1500 * time.Millisecond: "warning: the clock of redis a:1 is 1.5s ahead of this machine's: schedules and expiries " +
			"go by it [timedatectl set-ntp true]\n",
		-time.Minute: "wrong: the clock of redis a:1 is 1m0s behind this machine's: schedules and expiries go " +
			"by it [timedatectl set-ntp true]\n",
	} {
		p := &Patient{Servers: func(context.Context) ([]redisq.Server, error) {
			return []redisq.Server{
				{Addr: "a:1", Time: noon.Add(skew), Asked: noon, Answered: noon},
				{Addr: "b:1", Time: noon, Asked: noon, Answered: noon},
			}, nil
		}}
		if got := said(p, "clock"); got != want {
			t.Errorf("%v: %s", skew, got)
		}
	}
	p := &Patient{Overflow: func(context.Context) ([]deferred.StreamState, error) {
		return []deferred.StreamState{{Name: "A", Time: noon.Add(time.Hour), Asked: noon, Answered: noon}, {Name: "B"}}, nil
	}}
	if got := said(p, "clock"); !strings.HasPrefix(got, "wrong: the clock of nats is 1h0m0s ahead of") {
		t.Error(got)
	}
}

func TestOverflow(t *testing.T) {
	jobs := deferred.StreamState{
		Name: "JOBS", Messages: 2, Bytes: 10, MaxBytes: 1 << 20, Time: noon, Oldest: noon.Add(-time.Hour),
	}
	dead := deferred.StreamState{Name: "DEAD", MaxBytes: 1 << 20, Time: noon}
	for want, change := range map[string]func(jobs, dead *deferred.StreamState){
		"ok: nats holds 2 deferred jobs; the oldest has waited for 1h0m0s []\n": func(
			_, _ *deferred.StreamState,
		) {
		},
		"warning: JOBS is 90% full [nats stream edit JOBS --max-bytes 2097152]\n": func(jobs, _ *deferred.StreamState) {
			jobs.Bytes = jobs.MaxBytes * 9 / 10
		},
		"wrong: DEAD is full [nats stream edit DEAD --max-bytes 2097152]\n": func(
			_, dead *deferred.StreamState,
		) {
			dead.Bytes = dead.MaxBytes
		},
		"warning: DEAD holds 3 deferred jobs that could not be readmitted [nats stream view DEAD]\n": func(
			_, dead *deferred.StreamState,
		) {
			dead.Messages = 3
		},
		"warning: the oldest deferred job has waited for 13h0m0s: raise the rate of its queue, or max_age [penstock queue " +
			"ls]\n": func(
			jobs, _ *deferred.StreamState,
		) {
			jobs.Oldest = noon.Add(-13 * time.Hour)
		},
	} {
		j, d := jobs, dead
		change(&j, &d)
		p := &Patient{Overflow: func(context.Context) ([]deferred.StreamState, error) {
			return []deferred.StreamState{j, d}, nil
		}}
		if got := said(p, "overflow"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestDisk(t *testing.T) {
	for free, want := range map[uint64]string{
		50 << 30:  "ok: 50 GiB is free on the disk of /d []\n",
		500 << 20: "warning: only 500 MiB is free on the disk of /d [df -h /d]\n",
		50 << 20:  "wrong: only 50 MiB is free on the disk of /d: jobs will be refused [df -h /d]\n",
	} {
		p := &Patient{Disk: "/d", Free: func(string) (uint64, error) { return free, nil }}
		if got := said(p, "disk"); got != want {
			t.Errorf("%d: %s", free, got)
		}
	}
	p := &Patient{Disk: "/d", Free: func(string) (uint64, error) { return 0, errors.New("gone") }}
	if got := said(p, "disk"); got != "wrong: gone [df -h /d]\n" {
		t.Error(got)
	}
}

func TestWorst(t *testing.T) {
	for _, c := range []struct {
		want  Verdict
		found []Verdict
	}{{OK, nil}, {OK, []Verdict{OK}}, {Warning, []Verdict{OK, Warning, OK}}, {Wrong, []Verdict{Wrong, Warning, OK}}} {
		var found []Finding
		for _, v := range c.found {
			found = append(found, Finding{Verdict: v})
		}
		if got := Worst(found); got != c.want {
			t.Errorf("%v: %s", c.found, got)
		}
	}
}
