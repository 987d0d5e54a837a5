package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

const whole = `# all that a queue can have
queues:
  - name: email
    rate: 14/s
    burst: 2
    capacity: 500
    lease: 1m
    slack: 10ms
    retry: {max_attempts: 3, min_backoff: 2s, max_backoff: 1h, jitter: none}
    retention:
      for: 48h
      max: 7
    max_in_flight: 50
    max_scheduled: 100
    ordered: true
    lanes: {rate: 2/s, burst: 3, capacity: 100, max_in_flight: 4,
            overrides: {"gmail.com": {rate: 10/s}, example.com: {}}}
    overflow: defer
    deferred: {max_age: 6h, low_water: 0.25, max_jobs: 9, readmit_between: 22:00-06:00, timezone: Europe/Berlin}
    deliver:
      http: {url: "https://api.example.com/v1/send", timeout: 10s}
  - name: ses.otp
    rate: 0.5/s
`

func TestParse(t *testing.T) {
	file, err := config.Parse("q.yaml", []byte(whole), nil)
	if err != nil {
		t.Fatal(err)
	}
	specs := file.Queues
	want := queue.Spec{
		Name: "email", Rate: leaky.PerSecond(14), Burst: 2, Capacity: 500, Lease: unit.Duration(time.Minute),
		Slack: unit.Duration(10 * time.Millisecond),
		Retry: queue.Retry{
			MaxAttempts: 3, MinBackoff: unit.Duration(2 * time.Second), MaxBackoff: unit.Duration(time.Hour), Jitter: "none",
		},
		Retention:   queue.Retention{For: unit.Duration(48 * time.Hour), Max: 7},
		MaxInFlight: 50, MaxScheduled: 100, Ordered: true,
		Circuit: queue.Circuit{
			Failures: 5, MinProbe: unit.Duration(time.Second), MaxProbe: unit.Duration(time.Minute),
			Slow: unit.Duration(10 * time.Second),
		},
		Lanes: queue.Lanes{
			LaneRule:  queue.LaneRule{Rate: leaky.PerSecond(2), Burst: 3, Capacity: 100, MaxInFlight: 4},
			Overrides: map[string]queue.LaneRule{"gmail.com": {Rate: leaky.PerSecond(10)}, "example.com": {}},
		},
		Overflow: queue.Defer,
		Deferred: queue.Deferral{
			MaxAge: unit.Duration(6 * time.Hour), LowWater: 0.25, MaxJobs: 9, ReadmitBetween: queue.ReadmitIn("22:00-06:00"),
			Timezone: "Europe/Berlin",
		},
		Deliver: json.RawMessage(`{"http":{"url":"https://api.example.com/v1/send","timeout":"10s"}}`),
	}
	if len(specs) != 2 || fmt.Sprintf("%+v", specs[0]) != fmt.Sprintf("%+v", want) {
		t.Errorf("got %+v\nwant %+v", specs, want)
	}
	if specs[1].Capacity != queue.DefaultCapacity || specs[1].Overflow != queue.Reject ||
		specs[1].Rate.String() != "30/m" {
		t.Errorf("defaults: %+v", specs[1])
	}
	if f, err := config.Parse("q.yaml", []byte("queues: []\n"), nil); err != nil || f.Queues == nil ||
		len(f.Queues) != 0 || f.Rules != nil {
		t.Errorf("no queues: %+v, %v", f, err)
	}
}

const ruled = `queues: # they may stand before the rules
  - {name: mail, rate: 14/s, rules: [mail.otp, mail]}
rules:
  - name: mail.otp
    algorithm: sliding_log
    limit: 2
    period: 1m
    key: "{lane}"
    action: defer
    away: share
    overrides: {"a.b@example.com": {limit: 100, period: 1m}}
  - {name: mail, algorithm: meter, rate: 100/s}
`

func TestParseRules(t *testing.T) {
	file, err := config.Parse("q.yaml", []byte(ruled), nil)
	if err != nil {
		t.Fatal(err)
	}
	minute := unit.Duration(time.Minute)
	want := []rules.Rule{
		{
			Name: "mail.otp", Algorithm: leaky.AlgorithmSlidingLog, Bound: rules.Bound{Limit: 2, Period: minute}, Key: "{lane}",
			Action: rules.Defer, Away: rules.AwayShare,
			Overrides: map[string]rules.Bound{"a.b@example.com": {Limit: 100, Period: minute}},
		},
		{
			Name: "mail", Algorithm: leaky.AlgorithmMeter, Bound: rules.Bound{Rate: leaky.PerSecond(100), Burst: 1},
			Action: rules.Reject, Away: rules.AwayClosed,
		},
	}
	if !reflect.DeepEqual(file.Rules, want) || len(file.Queues) != 1 ||
		!reflect.DeepEqual(file.Queues[0].Rules, []string{"mail.otp", "mail"}) {
		t.Errorf("got %+v\nwant %+v", file, want)
	}
	only, err := config.Parse("q.yaml", []byte("rules:\n  - {name: mail, algorithm: gap, period: 1s}\n"), nil)
	if err != nil || len(only.Rules) != 1 || only.Queues != nil {
		t.Errorf("only rules: %+v, %v", only, err)
	}
}

func TestBadFiles(t *testing.T) {
	refuse := func(_ string, raw json.RawMessage) error {
		if strings.Contains(string(raw), "gopher") {
			return fmt.Errorf("bad target: %w", &invalid.Error{
				Field: "deliver.http.url", Value: `"gopher"`, Reason: "must be http or https",
			})
		}
		return nil
	}
	one := func(rest string) string { return "queues:\n  - name: email\n    rate: 14/s\n" + rest }
	rate := func(r string) string { return "queues:\n  - name: email\n    rate: " + r + "\n" }
	named := func(n string) string { return "queues:\n  - rate: 1/s\n    name: " + n + "\n" }
	rule := func(rest string) string { return "rules:\n  - name: otp\n    algorithm: fixed_window\n" + rest }
	numbers := "    limit: 2\n    period: 1m\n"
	for _, c := range []struct {
		name, yaml  string
		line, field any
		reason      string
	}{
		{"unknown key", one("    capasity: 5\n"), 4, "queues[0].capasity", "not a field"},
		{"unknown nested key", one("    retry:\n      times: 5\n"), 5, "queues[0].retry.times", "not a field"},
		{"unknown top key", one("") + "queue: 1\n", 4, "queue", "not a field"},
		{"a list that is none", one("    limits: {rate: 2/s}\n"), 4, "queues[0].limits", "must be a list"},
		{"duplicate key", one("    rate: 15/s\n"), 4, "queues[0].rate", "twice"},
		{"duplicate nested key", one("    retry: {jitter: full, jitter: none}\n"), 4, "queues[0].retry.jitter", "twice"},
		{"duplicate top key", one("") + "queues: []\n", 4, "queues", "twice"},
		{"two queues of one name", one("") + "  - name: email\n    rate: 1/s\n", 4, "queues[1].name", "first in line 2"},
		{"rate 0/s", rate("0/s"), 3, "queues[0].rate", "above zero"},
		{"rate -1/s", rate("-1/s"), 3, "queues[0].rate", "above zero"},
		{"rate 1e9/s", rate("1e9/s"), 3, "queues[0].rate", "want NUMBER/s"},
		{"rate abc", rate("abc"), 3, "queues[0].rate", "want NUMBER/s"},
		{"rate 10/fortnight", rate("10/fortnight"), 3, "queues[0].rate", "want NUMBER/s"},
		{"rate 14", rate("14"), 3, "queues[0].rate", "must be"},
		{"rate left empty", rate(""), 3, "queues[0].rate", "null"},
		{"rate missing", "queues:\n  - name: email\n", 2, "queues[0].rate", "missing"},
		{"capacity 0", one("    capacity: 0\n"), 4, "queues[0].capacity", "is 0"},
		{"capacity negative", one("    capacity: -3\n"), 4, "queues[0].capacity", "is -3"},
		{"capacity huge", one("    capacity: 99999999999999999999999\n"), 4, "queues[0].capacity", ""},
		{"capacity as text", one("    capacity: many\n"), 4, "queues[0].capacity", "must be"},
		{"capacity infinite", one("    capacity: .inf\n"), 4, "queues[0].capacity", "not a supported number"},
		{"lease without unit", one("    lease: 30\n"), 4, "queues[0].lease", "such as \"30s\""},
		{"attempts 0", one("    retry:\n      max_attempts: 0\n"), 5, "queues[0].retry.max_attempts", "from 1"},
		{"overflow neither", one("    overflow: maybe\n"), 4, "queues[0].overflow", "reject or defer"},
		{"overflow left empty", one("    overflow:\n"), 4, "queues[0].overflow", "null"},
		{"unknown key of deferred", one("    deferred:\n      age: 1h\n"), 5, "queues[0].deferred.age", "not a field"},
		{
			"max_age beyond the retention", one("    deferred: {max_age: 48h}\n"), 4, "queues[0].deferred.max_age",
			"longer than retention.for",
		},
		{
			"max_age of the default beyond a short retention",
			one("    deferred:\n      max_age: 24h\n    retention: {for: 1h}\n"), 5, "queues[0].deferred.max_age", "longer than",
		},
		{
			"low_water in percent", one("    deferred:\n      low_water: 50\n"), 5, "queues[0].deferred.low_water",
			"between 0 and 1",
		},
		{"low_water as text", one("    deferred:\n      low_water: half\n"), 5, "queues[0].deferred.low_water", "a number"},
		{"max_jobs 0", one("    deferred: {max_jobs: 0}\n"), 4, "queues[0].deferred.max_jobs", "is 0"},
		{
			"hours without minutes", one("    deferred: {readmit_between: 22-6}\n"), 4, "queues[0].deferred.readmit_between",
			"two times of day",
		},
		{
			"hours that are none", one("    deferred: {readmit_between: 25:00-06:00}\n"), 4,
			"queues[0].deferred.readmit_between", "two times of day",
		},
		{"zone without hours", one("    deferred: {timezone: Europe/Berlin}\n"), 4, "queues[0].deferred.timezone", "without"},
		{
			"zone of the machine", one("    deferred: {readmit_between: 22:00-06:00, timezone: Local}\n"), 4,
			"queues[0].deferred.timezone", "machine",
		},
		{"max_in_flight 0", one("    max_in_flight: 0\n"), 4, "queues[0].max_in_flight", "no limit"},
		{"max_scheduled negative", one("    max_scheduled: -1\n"), 4, "queues[0].max_scheduled", "is -1"},
		{"ordered as text", one("    ordered: 'yes'\n"), 4, "queues[0].ordered", "true or false"},
		{"lanes a rate", one("    lanes: 2/s\n"), 4, "queues[0].lanes", "an object"},
		{"lanes left empty", one("    lanes:\n"), 4, "queues[0].lanes", "null"},
		{"unknown key of lanes", one("    lanes:\n      share: 2\n"), 5, "queues[0].lanes.share", "not a field"},
		{"lanes of weight 0", one("    lanes:\n      weight: 0\n"), 5, "queues[0].lanes.weight", "from 1 to 1000"},
		{"weight 0", one("    weight: 0\n"), 4, "queues[0].weight", "pause the queue"},
		{"weight in words", one("    weight: double\n"), 4, "queues[0].weight", "whole number"},
		{"rate of a lane", one("    lanes:\n      rate: 2\n"), 5, "queues[0].lanes.rate", "such as"},
		{
			"burst of a lane", one("    lanes:\n      rate: 1/d\n      burst: 1000\n"), 6, "queues[0].lanes.burst", "spans more",
		},
		{
			"override, unknown key",
			one("    lanes:\n      overrides:\n        example.com: {}\n        \"gmail.com\":\n          rat: 10/s\n"), 8,
			"queues[0].lanes.overrides.gmail.com.rat", "not a field",
		},
		{
			"override, value",
			one("    lanes:\n      overrides:\n        example.com: {}\n        gmail.com:\n          capacity: -1\n"), 8,
			"queues[0].lanes.overrides.gmail.com.capacity", "is -1",
		},
		{
			"override twice", one("    lanes:\n      overrides:\n        a: {}\n        a: {}\n"), 7,
			"queues[0].lanes.overrides.a", "twice",
		},
		{
			"override of a number", one("    lanes:\n      overrides:\n        12: {}\n"), 6, "queues[0].lanes.overrides",
			"not a plain name",
		},
		{
			"override of a long key", one("    lanes:\n      overrides:\n        " + strings.Repeat("k", 257) + ": {}\n"), nil,
			"queues[0].lanes.overrides", "not the key of a lane",
		},
		{"name missing", "queues:\n  - rate: 1/s\n", 2, "queues[0].name", "missing"},
		{"name {}", named("'{}'"), 3, "queues[0].name", "a queue name"},
		{"name with colon", named("a:b"), 3, "queues[0].name", "a queue name"},
		{"name with slash", named("a/b"), 3, "queues[0].name", "a queue name"},
		{"name with two dots", named("a.b.c"), 3, "queues[0].name", "a queue name"},
		{"name with space", named("a b"), 3, "queues[0].name", "a queue name"},
		{"name with control character", named(`"a\x01b"`), 3, "queues[0].name", "a queue name"},
		{"name of 3 MB", named(strings.Repeat("a", 3<<20)), nil, "queues[0]", "limit"},
		{"name of 10 MB", named(strings.Repeat("a", 10<<20)), nil, nil, "limit"},
		{"name a number", named("12"), 3, "queues[0].name", "must be"},
		{"target", one("    deliver: {http: {url: gopher}}\n"), 4, "queues[0].deliver.http.url", "http or https"},
		{"alias", "queues:\n  - &a\n    name: email\n    rate: 1/s\n  - *a\n", nil, "queues[0]", "not supported"},
		{"tag", rate("!!str 14/s"), 3, "queues[0].rate", "not supported"},
		{"merge key", one("    <<: {burst: 2}\n"), 4, "queues[0]", "not a plain name"},
		{"a list", "- name: email\n", 1, nil, "must be a mapping"},
		{"queues a mapping", "queues: {email: {rate: 1/s}}\n", 1, "queues", "must be a list"},
		{"queues left empty", rule(numbers) + "queues:\n", 6, "queues", "must be a list"},
		{"rules a mapping", one("") + "rules: {otp: {limit: 2}}\n", 4, "rules", "must be a list of rules"},
		{"neither", "{}\n", 1, nil, "neither rules nor queues"},
		{"a rule that is text", "rules: [otp]\n", 1, "rules[0]", ""},
		{"rule, unknown key", rule(numbers + "    limits: 2\n"), 6, "rules[0].limits", "not a field"},
		{"rule, key twice", rule(numbers + "    limit: 3\n"), 6, "rules[0].limit", "twice"},
		{"rule without a name", "rules:\n  - {algorithm: gap, period: 1s}\n", 2, "rules[0].name", "missing"},
		{"name of a rule", "rules:\n  - {name: a/b, algorithm: gap, period: 1s}\n", 2, "rules[0].name", "a rule name"},
		{
			"two rules of one name", rule(numbers) + "  - {name: otp, algorithm: gap, period: 1s}\n", 6, "rules[1].name",
			"first in line 2",
		},
		{"algorithm missing", "rules:\n  - name: otp\n    limit: 2\n", 2, "rules[0].algorithm", "must be one of"},
		{
			"algorithm that is none", "rules:\n  - name: otp\n    algorithm: guess\n", 3, "rules[0].algorithm", "must be one of",
		},
		{
			"limit 0", rule("    limit: 0\n    period: 1m\n"), 4, "rules[0].limit",
			"is missing or 0, but fixed_window needs it",
		},
		{"limit huge", rule("    limit: 1e18\n    period: 1m\n"), 4, "rules[0].limit", ""},
		{"period 0", rule("    limit: 2\n    period: 0s\n"), 5, "rules[0].period", ""},
		{"a number of no use", rule(numbers + "    burst: 2\n"), 6, "rules[0].burst", "has no effect"},
		{"template", rule(numbers + "    key: '{to}'\n"), 6, "rules[0].key", ""},
		{"action that is none", rule(numbers + "    action: drop\n"), 6, "rules[0].action", "reject, defer or shadow"},
		{
			"bound of a key", rule(numbers + "    overrides:\n      a.b:\n        limit: 0\n        period: 1m\n"), 8,
			"rules[0].overrides.a.b.limit", "is missing or 0, but fixed_window needs it",
		},
		{"queue that names a rule twice", one("    rules: [otp, otp]\n"), 4, "queues[0].rules.1", "twice"},
		{"a queue that is text", "queues: [email]\n", 1, "queues[0]", ""},
		{"empty", "# nothing\n", nil, nil, "empty"},
		{"two documents", one("") + "---\nqueues: []\n", 5, nil, "second"},
		{"not YAML", "queues: [\n", nil, nil, ""},
		{"tab", "queues:\n\t- name: a\n", 2, nil, ""},
		{"deep", one("    deliver: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n"), 4, nil, "deeper"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := config.Parse("q.yaml", []byte(c.yaml), refuse)
			var e *config.Error
			if !errors.As(err, &e) || file.Rules != nil || file.Queues != nil {
				t.Fatalf("got %+v, %v", file, err)
			}
			if c.line != nil && e.Line != c.line || c.field != nil && e.Field != c.field ||
				!strings.Contains(e.Reason, c.reason) {
				t.Errorf("line %d, field %q, reason %q; want %v, %v, %q", e.Line, e.Field, e.Reason, c.line, c.field, c.reason)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// All faulty rules and queues are reported at once, up to a limit.
func TestAllFaults(t *testing.T) {
	_, err := config.Parse(
		"q.yaml",
		[]byte(
			"queues:\n- {name: a, rate: x}\n- {name: b, rate: 1/s}\n- {name: c, rate: 1/s, capacity: 0}\nrules:\n- {name: d, "+
				"algorithm: gap}\n",
		),
		nil,
	)
	if err == nil || !strings.Contains(err.Error(), "q.yaml:6:3: rules[0].period:") ||
		!strings.Contains(err.Error(), "q.yaml:2:13: queues[0].rate:") ||
		!strings.Contains(err.Error(), "q.yaml:4:24: queues[2].capacity:") {
		t.Errorf("got %v", err)
	}
	_, err = config.Parse(
		"q.yaml",
		[]byte(
			"queues:\n"+strings.Repeat("- {rate: 1/s}\n", 15)+"rules:\n"+strings.Repeat("- {name: d, algorithm: gap}\n", 15),
		),
		nil,
	)
	if err == nil || strings.Count(err.Error(), "\n") != 20 || !strings.HasSuffix(err.Error(), "and perhaps more") {
		t.Errorf("got %v", err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "queues.yaml")
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := config.Load(path, nil); err != nil || len(f.Queues) != 2 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := config.Load(filepath.Join(dir, "none.yaml"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := config.Load(dir, nil); err == nil {
		t.Error("a directory was read")
	}
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, config.MaxBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(large, nil); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a large file: %v", err)
	}
}
