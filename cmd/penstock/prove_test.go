package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/internal/test/redistest"
)

// proof is the part of a report that tests look at.
type proof struct {
	Accepted, Delivered, Lost, Strangers int
	Injected                             int `json:"faults_injected"`
	Queues                               int
	Twice                                int `json:"delivered_twice"`
	Held                                 bool
	Law                                  prove.LawReport
	Broken                               []string
	Reference                            *prove.PaceReport
	Levels                               []prove.LevelReport
	Limit                                *prove.LimitReport
	Quota                                *prove.QuotaReport
	Hours                                *prove.HoursReport
}

// runProof runs prove and checks that its exit code says what its report says.
// Timings are the machine's, which tests share with others: whether the window
// law held is read from the report and not demanded.
func runProof(t *testing.T, args ...string) proof {
	t.Helper()
	code, out, errs := run(t, append([]string{"prove", "-o", "json"}, args...)...)
	var p proof
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("exit %d, %v\n%s\n%s", code, err, out, errs)
	}
	if (code == 0) != p.Held || p.Held != (len(p.Broken) == 0) || code > 1 {
		t.Errorf("exit %d, held %v, broken %v", code, p.Held, p.Broken)
	}
	if p.Accepted == 0 || p.Delivered != p.Accepted || p.Lost != 0 || p.Strangers != 0 {
		t.Errorf("%+v\n%s", p, errs)
	}
	for _, b := range p.Broken {
		if !strings.Contains(b, "window law") {
			t.Error(b)
		}
	}
	return p
}

func TestProveEmbedded(t *testing.T) {
	t.Parallel()
	if p := runProof(t, "--rate", "50/s", "-d", "3s", "--reference"); p.Twice != 0 || p.Reference == nil ||
		p.Reference.Starts < 100 {
		t.Errorf("%+v", p)
	}
}

func TestProveEmbeddedUnderKill(t *testing.T) {
	t.Parallel()
	if p := runProof(t, "--rate", "50/s", "-d", "5s", "--faults", "kill", "--every", "1s"); p.Injected < 2 {
		t.Errorf("%+v", p)
	}
}

// TestProveLanes: what came of each lane is judged by its rate. All of it is accounted for.
func TestProveLanes(t *testing.T) {
	t.Parallel()
	p := runProof(t, "--rate", "60/s", "-d", "4s", "--lanes", "3")
	sum := 0
	for _, l := range p.Levels {
		sum += l.Starts
	}
	if len(p.Levels) != 3 || sum != p.Delivered || p.Levels[1].Rate != "10/s" || p.Levels[1].Starts > 10*4+30 {
		t.Errorf("%d of %d jobs in %+v", sum, p.Delivered, p.Levels)
	}
}

// TestProveChildren: several drainers under faults, and every level of a group is accounted for.
func TestProveChildren(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	p := runProof(
		t, "--redis", server.URL(), "--init", "--drainers", "2", "--rate", "60/s", "-d", "5s", "--faults", "kill", "--every",
		"2s", "--children", "2", "--lanes", "2",
	)
	sum := map[string]int{}
	for _, l := range p.Levels {
		sum[l.Kind] += l.Starts
	}
	if len(p.Levels) != 6 || sum["queue"] != p.Delivered+p.Twice || sum["lane"] != p.Delivered+p.Twice {
		t.Errorf("%v of %d jobs in %+v", sum, p.Delivered, p.Levels)
	}
}

// TestProveLimit: what jobs use in a unit is corrected after the delivery, and judged, while drainers are killed.
func TestProveLimit(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	for _, args := range [][]string{{"-d", "4s"}, {
		"--redis", server.URL(), "--init", "--drainers", "2", "--children", "2", "-d", "5s", "--faults", "kill", "--every",
		"2s",
	}} {
		p := runProof(t, append(args, "--rate", "60/s", "--limit", "tokens=72000/m")...)
		if l := p.Limit; l == nil || l.Limit != "tokens=1200/s" || l.Used < 3000 || !l.Charged.Held && p.Held {
			t.Errorf("%+v", p)
		}
	}
}

// TestProveMinutes: hours close and open a queue, and a ramp grows, while its processes are killed. The short form does
// the first on one engine.
func TestProveMinutes(t *testing.T) {
	t.Parallel()
	for _, flags := range long.Of([][]string{{"--hours"}}, [][]string{{"--hours"}, {"--ramp", "20,40,1000"}}) {
		for onRedis := range long.Of(1, 2) {
			t.Run(flags[0], func(t *testing.T) {
				t.Parallel()
				var store []string
				if onRedis == 1 {
					store = []string{"--redis", redistest.New(t, redistest.Options{}).URL(), "--init", "--drainers", "2"}
				}
				args := slices.Concat(store, flags, []string{"--rate", "20/s", "-d", "121s", "--faults", "kill", "--every", "20s"})
				p := runProof(t, args...)
				ramp, hours := p.Quota, p.Hours
				if (ramp == nil) != (flags[0] == "--hours") || (hours == nil) == (ramp == nil) || p.Injected < 5 ||
					ramp != nil && (len(ramp.Used) < 3 || ramp.Most[2] != 1000) || hours != nil && len(hours.Starts) < 2 {
					t.Errorf("%+v", p)
				}
			})
		}
	}
}

// TestProveQueues judges each of many queues while drainers are killed.
func TestProveQueues(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	p := runProof(
		t, "--redis", server.URL(), "--init", "--drainers", "2", "--rate", "2/s", "-d", "6s", "--faults", "kill", "--every",
		"2s", "--queues", "50",
	)
	sum := 0
	for _, l := range p.Levels {
		sum += l.Starts
	}
	if p.Queues != 50 || len(p.Levels) != 50 || sum != p.Delivered+p.Twice || p.Lost != 0 {
		t.Errorf("%d of %d jobs of %d queues", sum, p.Delivered, len(p.Levels))
	}
}

func TestProveUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"one drainer":         {"--drainers", "2"},
		"unlimited":           {"--rate", "unlimited"},
		"must be longer than": {"--faults", "kill", "-d", "2s"},
		"rate":                {"--rate", "0/s"},
		"--faults":            {"--faults", "earthquake"},
		"at least 1s":         {"-d", "1ms"},
		"from 0 to 64":        {"--lanes", "65"},
		"one a minute":        {"--quota", "5/h"},
		"longer than a min":   {"--quota", "5/m"},
		"longer than 2m0s":    {"--hours"},
		"leave out quota":     {"--quota", "5/m", "--ramp", "5,9"},
		"32 ascending":        {"--ramp", "9,5", "-d", "3m"},
		"raise the rate":      {"--rate", "1/s", "--children", "60", "-d", "10s"},
		"no children, quota":  {"--queues", "2", "--children", "2"},
		"from 0 to 5000":      {"--queues", "5001"},
		"above 5000/s in all": {"--queues", "5000", "--rate", "2/s"},
		"has one ingress":     {"--rules", "--ingresses", "2"},
		"need --rules":        {"--callers", "2"},
		"which need a queue":  {"--rules", "--lanes", "2"},
		"from 1 to 64":        {"--rules", "--ingresses=-2"},
		"more than 0":         {"--every=-1s", "--faults", "kill"},
		"false violations":    {"--delta=-5ms"},
		"can be judged":       {"--rules", "--rate", "5000/s"},
		"started again":       {"--upgrade", "/bin/true"},
		"such as tokens=1000": {"--limit", "10000/m"},
		"at least twice":      {"--limit", "tokens=10/s"},
	} {
		if code, _, errs := run(t, append([]string{"prove"}, args...)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
	if code, _, errs := run(t, "prove", "--redis", "redis://127.0.0.1:1"); code != 4 {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestProveOnRedis runs each fault with three drainer processes on a real Redis.
func TestProveOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	for _, fault := range []string{"kill", "pause", "restart"} {
		t.Run(fault, func(t *testing.T) {
			p := runProof(
				t, "--redis", server.URL(), "--init", "--partitions", "2", "--drainers", "3", "--rate", "50/s", "-d", "5s",
				"--faults", fault, "--every", "1s",
			)
			if p.Injected < 1 {
				t.Errorf("%+v", p)
			}
		})
	}
	// It leaves nothing of its queues behind, but their specs and the record that they were made and deleted.
	var left []string
	keys := server.Client().Scan(t.Context(), 0, "*prove-*", 1000).Iterator()
	for keys.Next(t.Context()) {
		if !strings.Contains(keys.Val(), "}H:") && !strings.Contains(keys.Val(), "}P:") {
			left = append(left, keys.Val())
		}
	}
	if err := keys.Err(); err != nil || len(left) > 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
}
