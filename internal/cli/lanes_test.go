package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The settings of lanes can be given as fields and as flags, which are the same; the key
// of a lane may have dots.
func TestSetLanes(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	t.Setenv("PENSTOCK_LANE_RATE", "7/s") // nobody's
	expect(t, ExitDone, "made", "", "queue", "set", "email", "rate=14/s")
	r := expect(t, ExitDone, "name", "", "queue", "info", "email")
	for _, never := range []string{"limits", "lanes", "overrides"} {
		if strings.Contains(r.out, never) {
			t.Errorf("%s of a queue that has none:\n%s", never, r.out)
		}
	}
	expect(t, ExitDone, "lanes.burst: (none) -> 3\n  lanes.capacity: (none) -> 100\n  lanes.max_in_flight: (none) -> 4\n  lanes.rate: (none) -> 2/s\n"+
		"  max_in_flight: (none) -> 50\n  max_scheduled: (none) -> 70\n  ordered: (none) -> true\n", "",
		"queue", "set", "email", "--lane-rate", "2/s", "--lane-burst", "3", "--lane-capacity", "100", "--lane-max-in-flight", "4",
		"--max-in-flight", "50", "--max-scheduled", "70", "--ordered")
	expect(t, ExitDone, "lanes.overrides.a: (none) -> {}\n  lanes.overrides.gmail.com.capacity: (none) -> 5\n  lanes.overrides.gmail.com.rate: (none) -> 10/s\n", "",
		"queue", "set", "email", "lanes.overrides.gmail.com.rate=10/s", "lanes.overrides.gmail.com.capacity=5", "lanes.overrides.a={}")
	r = expect(t, ExitDone, "name", "", "queue", "info", "email")
	for _, want := range []string{
		"limits        at most 50 in flight, at most 70 scheduled, ordered: one of a lane at a time\n",
		"lanes         0 with jobs waiting; each 2/s burst 3, at most 100 jobs, at most 4 in flight\n",
		"overrides     a: no bounds; gmail.com: 10/s, at most 5 jobs\n",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	expect(t, ExitDone, "lanes.overrides.a: {} -> (none)\n  lanes.overrides.gmail.com.rate: 10/s -> (none)\n  lanes.rate: 2/s -> (none)\n  max_scheduled: 70 -> (none)\n  ordered: true -> (none)\n", "",
		"queue", "set", "email", "lanes.overrides.a=", "lanes.overrides.gmail.com.rate=", "max_scheduled=", "--lane-rate=", "--no-ordered")
	info, err := store.Get(t.Context(), "email")
	if err != nil || len(info.Spec.Lanes.Overrides) != 1 || info.Spec.Lanes.Overrides["gmail.com"].Capacity != 5 {
		t.Errorf("%v: %+v", err, info.Spec.Lanes)
	}
	expect(t, ExitDone, "lanes.overrides.gmail.com.capacity: 5 -> (none)\n", "", "queue", "set", "email", "lanes.overrides.gmail.com=")

	expect(t, ExitUsage, "", "--lane-rate and lanes.rate= are the same", "queue", "set", "email", "--lane-rate", "1/s", "lanes.rate=1/s")
	for setting, want := range map[string]string{
		"--max-in-flight=0": "leave it out for no limit", "--max-scheduled=-1": "is -1", "--lane-rate=fast": "lanes.rate", "--lane-burst=0": "lanes.burst", "--lane-capacity=many": "whole number",
		"ordered=perhaps": "true or false", "lanes.overrides.gmail.com.rate=x": "lanes.overrides.gmail.com.rate", "lanes.overrides.rate=1/s": "lanes.overrides.rate", "lanes.weight=1": "not a field",
	} {
		expect(t, ExitRefused, "", want, "queue", "set", "email", setting)
	}
}

// A rule that bounds nothing is another than none, and is applied and told.
func TestApplyLanes(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	path := filepath.Join(t.TempDir(), "queues.yaml")
	write := func(lanes string) {
		if err := os.WriteFile(path, []byte("queues:\n  - name: email\n    rate: 14/s\n"+lanes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("    lanes: {rate: 2/s}\n")
	expect(t, ExitDone, "email made", "", "queue", "apply", "-f", path)
	expect(t, ExitDone, "email unchanged", "", "queue", "apply", "-f", path)
	write("    lanes: {rate: 2/s, overrides: {\"gmail.com\": {}}}\n")
	expect(t, ExitDone, "email changed, revision", "", "queue", "apply", "-f", path)
	write("    lanes: {rate: 2/s, overrides: {\"gmail.com\": {rate: 10/s}}}\n")
	expect(t, ExitDone, "  lanes.overrides.gmail.com: {} -> (none)\n  lanes.overrides.gmail.com.rate: (none) -> 10/s\n", "", "queue", "apply", "-f", path)
	write("    lanes: {rate: 2/s, overrides: {\"gmail.com\": {rate: 0/s}}}\n")
	expect(t, ExitUsage, "", "queues.yaml:4:", "queue", "apply", "-f", path)
	write("    lanes:\n      overrides:\n        gmail.com: {rat: 1/s}\n")
	expect(t, ExitUsage, "", "queues.yaml:6:21: queues[0].lanes.overrides.gmail.com.rat: is not a field", "queue", "apply", "-f", path)
}

func TestPushLaneFlagsAreChecked(t *testing.T) {
	t.Setenv("PENSTOCK_URL", ingress(t))
	for _, c := range []struct{ want, flag, more string }{
		{"--lane: ", "--lane=" + strings.Repeat("k", 257), ""},
		{"--priority -1: must be from 0 to 9", "--priority=-1", ""},
		{"--priority 10: must be from 0 to 9", "--priority=10", ""},
		{"priority", "--priority=high", ""},
		{`--not-before "2026-12-24T06:00:00": must be an instant with a time zone`, "--not-before=2026-12-24T06:00:00", ""},
		{`--not-before "-2h": must be`, "--not-before=-2h", ""},
		{"expire before they may leave", "--not-before=2h", "--expires-in=2h"},
	} {
		args := []string{"push", "email", "-f", "-", c.flag}
		if c.more != "" {
			args = append(args, c.more)
		}
		expect(t, ExitUsage, "", c.want, args...)
	}
}
