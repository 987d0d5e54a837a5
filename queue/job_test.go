package queue

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// field checks that err is an *invalid.Error of that field, short enough to show.
func field(t *testing.T, what string, err error, want string) {
	t.Helper()
	var fe *invalid.Error
	if !errors.As(err, &fe) || fe.Field != want || fe.Reason == "" || !strings.HasPrefix(err.Error(), want+": ") ||
		len(err.Error()) > 500 {
		t.Errorf("%s: got %.600v, want an *invalid.Error of %q", what, err, want)
	}
}

func TestJobDefaults(t *testing.T) {
	j := Job{Queue: "q", ID: "a"}
	j.Normalize()
	if j.ContentType != DefaultContentType || j.Cost != 1 {
		t.Errorf("got %+v", j)
	}
	if err := j.Validate(); err != nil {
		t.Error(err)
	}
	j = Job{Queue: "q", ID: "a", ContentType: "text/plain", Cost: 7}
	j.Normalize()
	if j.ContentType != "text/plain" || j.Cost != 7 {
		t.Errorf("got %+v", j)
	}
}

func TestJobAtItsLimits(t *testing.T) {
	j := Job{
		Queue: strings.Repeat("g", 64) + "." + strings.Repeat("c", 64), ID: strings.Repeat("~", names.MaxIDBytes),
		Payload:     make([]byte, MaxPayloadBytes),
		ContentType: strings.Repeat("x", MaxContentTypeBytes), Cost: leaky.MaxCost, Headers: map[string]string{},
		Lane: strings.Repeat("\U0010ffff", MaxLaneBytes/4), Priority: MaxPriority,
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		ExpiresAt: time.Date(2199, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
	}
	for i := range MaxHeaders {
		j.Headers[fmt.Sprintf("X-%02d", i)] = strings.Repeat("v", MaxHeaderBytes/MaxHeaders-4)
	}
	if err := j.Validate(); err != nil {
		t.Error(err)
	}
}

func TestJobRefuses(t *testing.T) {
	many := map[string]string{}
	for i := range MaxHeaders + 1 {
		many[fmt.Sprint("X-", i)] = ""
	}
	header := func(name, value string) func(*Job) {
		return func(j *Job) { j.Headers = map[string]string{name: value} }
	}
	noon := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	between := func(notBefore, expires time.Time) func(*Job) {
		return func(j *Job) { j.NotBefore, j.ExpiresAt = notBefore, expires }
	}
	for what, tt := range map[string]struct {
		field  string
		change func(*Job)
	}{
		"no queue":             {"queue", func(j *Job) { j.Queue = "" }},
		"queue with braces":    {"queue", func(j *Job) { j.Queue = "{q}" }},
		"queue of 10 MB":       {"queue", func(j *Job) { j.Queue = strings.Repeat("q", 10_000_000) }},
		"no id":                {"id", func(j *Job) { j.ID = "" }},
		"id of 1 MB":           {"id", func(j *Job) { j.ID = strings.Repeat("i", 1_000_000) }},
		"id with a space":      {"id", func(j *Job) { j.ID = "a b" }},
		"id with a line break": {"id", func(j *Job) { j.ID = "a\n" }},
		"id with a NUL":        {"id", func(j *Job) { j.ID = "\x00" }},
		"id beyond ASCII":      {"id", func(j *Job) { j.ID = "é" }},
		"id not UTF-8":         {"id", func(j *Job) { j.ID = "\xff" }},
		"payload too large":    {"payload", func(j *Job) { j.Payload = make([]byte, MaxPayloadBytes+1) }},
		"content type too long": {
			"content_type", func(j *Job) { j.ContentType = strings.Repeat("x", MaxContentTypeBytes+1) },
		},
		"content type with CRLF":                 {"content_type", func(j *Job) { j.ContentType = "a/b\r\nX: y" }},
		"content type not ASCII":                 {"content_type", func(j *Job) { j.ContentType = "a/ü" }},
		"cost below":                             {"cost", func(j *Job) { j.Cost = -1 }},
		"cost above":                             {"cost", func(j *Job) { j.Cost = leaky.MaxCost + 1 }},
		"too many headers":                       {"headers", func(j *Job) { j.Headers = many }},
		"headers too large":                      {"headers", header("X", strings.Repeat("v", MaxHeaderBytes))},
		"a forged signature":                     {"headers.Webhook-Signature", header("Webhook-Signature", "v1,x")},
		"a forged webhook's id":                  {"headers.webhook-id", header("webhook-id", "1")},
		"a forged time":                          {"headers.WEBHOOK-TIMESTAMP", header("WEBHOOK-TIMESTAMP", "1")},
		"a forged id":                            {"headers.penstock-id", header("penstock-id", "1")},
		"a key of its own":                       {"headers.Idempotency-Key", header("Idempotency-Key", "1")},
		"a nameless header":                      {"headers", header("", "v")},
		"a name with a space":                    {"headers", header("a b", "v")},
		"a name with a colon":                    {"headers", header("a:", "v")},
		"a name of 10 MB":                        {"headers", header(strings.Repeat(" ", 10_000_000), "v")},
		"a value with CRLF":                      {"headers.X", header("X", "v\r\nY: z")},
		"a value with a NUL":                     {"headers.X", header("X", "\x00")},
		"a value beyond ASCII":                   {"headers.X", header("X", "ü")},
		"the host":                               {"headers.Host", header("Host", "example.com")},
		"the length":                             {"headers.content-length", header("content-length", "0")},
		"the framing":                            {"headers.Transfer-Encoding", header("Transfer-Encoding", "chunked")},
		"the content type, beside its own field": {"headers.Content-Type", header("Content-Type", "text/plain")},
		"lane of 257 bytes":                      {"lane", func(j *Job) { j.Lane = strings.Repeat("x", MaxLaneBytes+1) }},
		"lane of 129 letters":                    {"lane", func(j *Job) { j.Lane = strings.Repeat("ä", MaxLaneBytes/2+1) }},
		"lane of 10 MB":                          {"lane", func(j *Job) { j.Lane = strings.Repeat("x", 10_000_000) }},
		"lane not UTF-8":                         {"lane", func(j *Job) { j.Lane = "\xff" }},
		"lane cut in a letter":                   {"lane", func(j *Job) { j.Lane = strings.Repeat("x", 10) + "ä"[:1] }},
		"lane of a surrogate":                    {"lane", func(j *Job) { j.Lane = "\xed\xa0\x80" }},
		"lane written too long":                  {"lane", func(j *Job) { j.Lane = "\xc0\x80" }},
		"priority below":                         {"priority", func(j *Job) { j.Priority = -1 }},
		"priority above":                         {"priority", func(j *Job) { j.Priority = MaxPriority + 1 }},
		"priority of a byte":                     {"priority", func(j *Job) { j.Priority = 256 }},
		"not before in 1970":                     {"not_before", func(j *Job) { j.NotBefore = time.Unix(0, 0) }},
		"not before in 1999": {
			"not_before", func(j *Job) { j.NotBefore = time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC) },
		},
		"not before in 2200": {
			"not_before", func(j *Job) { j.NotBefore = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC) },
		},
		"not before in 2999": {
			"not_before", func(j *Job) { j.NotBefore = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC) },
		},
		"expires in 1970":           {"expires_at", func(j *Job) { j.ExpiresAt = time.Unix(0, 0) }},
		"expires before not_before": {"expires_at", between(noon.Add(time.Hour), noon)},
		"expires at not_before":     {"expires_at", between(noon, noon)},
		"expires far before": {
			"expires_at",
			between(time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
	} {
		j := Job{Queue: "q", ID: "a"}
		j.Normalize()
		tt.change(&j)
		field(t, what, j.Validate(), tt.field)
	}
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	before := NewID()
	for range 10_000 {
		id := NewID()
		if len(id) != 26 || names.ValidateID(id) != nil || seen[id] {
			t.Fatalf("%q is no fresh id", id)
		}
		seen[id] = true
	}
	deadline := time.Now().Add(10 * time.Second)
	// until the clock has ticked
	for now := time.Now().UnixMilli(); time.Now().UnixMilli() == now && time.Now().Before(deadline); {
	}
	if after := NewID(); after <= before {
		t.Errorf("%s, made later, sorts before %s", after, before)
	}
}

func TestStates(t *testing.T) {
	all := []State{Waiting, Scheduled, Leased, Deferred, Delivered, Dead, Held, Cancelled, Expired}
	seen := map[string]bool{}
	for _, s := range all {
		text, err := s.MarshalText()
		var back State
		if err != nil || seen[string(text)] || back.UnmarshalText(text) != nil || back != s {
			t.Errorf("%v is written %q and read %v, %v", s, text, back, err)
		}
		seen[string(text)] = true
	}
	var s State
	for _, text := range []string{"", "Waiting", "gone"} {
		field(t, text, s.UnmarshalText([]byte(text)), "state")
	}
	ended := slices.DeleteFunc(slices.Clone(all), func(s State) bool { return !s.Ended() })
	if !slices.Equal(ended, []State{Delivered, Dead, Cancelled, Expired}) {
		t.Errorf("ended are %v", ended)
	}
	if got := State(200).String(); got != "State(200)" {
		t.Error(got)
	}
}

func TestSpecRefuses(t *testing.T) {
	for what, tt := range map[string]struct {
		field  string
		change func(*Spec)
	}{
		"name":              {"name", func(s *Spec) { s.Name = "a b" }},
		"burst below":       {"burst", func(s *Spec) { s.Burst = -1 }},
		"burst above":       {"burst", func(s *Spec) { s.Burst = leaky.MaxBurst + 1 }},
		"burst of ages":     {"burst", func(s *Spec) { s.Rate, _ = leaky.ParseRate("1/d"); s.Burst = 1000 }},
		"capacity below":    {"capacity", func(s *Spec) { s.Capacity = -1 }},
		"capacity above":    {"capacity", func(s *Spec) { s.Capacity = MaxCapacity + 1 }},
		"lease below":       {"lease", func(s *Spec) { s.Lease = unit.Duration(MinLease - time.Microsecond) }},
		"lease above":       {"lease", func(s *Spec) { s.Lease = unit.Duration(24*time.Hour + time.Microsecond) }},
		"lease in ns":       {"lease", func(s *Spec) { s.Lease = unit.Duration(MinLease + 1) }},
		"slack below":       {"slack", func(s *Spec) { s.Slack = 1 }},
		"slack above":       {"slack", func(s *Spec) { s.Slack = unit.Duration(time.Minute + time.Second) }},
		"attempts below":    {"retry.max_attempts", func(s *Spec) { s.Retry.MaxAttempts = -1 }},
		"attempts above":    {"retry.max_attempts", func(s *Spec) { s.Retry.MaxAttempts = MaxMaxAttempts + 1 }},
		"min backoff below": {"retry.min_backoff", func(s *Spec) { s.Retry.MinBackoff = 1 }},
		"max backoff above": {
			"retry.max_backoff", func(s *Spec) { s.Retry.MaxBackoff = unit.Duration(MaxBackoffLimit + time.Second) },
		},
		"backoff reversed": {
			"retry.max_backoff",
			func(s *Spec) {
				s.Retry.MinBackoff, s.Retry.MaxBackoff = unit.Duration(time.Hour), unit.Duration(time.Minute)
			},
		},
		"jitter":          {"retry.jitter", func(s *Spec) { s.Retry.Jitter = "half" }},
		"retention below": {"retention.for", func(s *Spec) { s.Retention.For = unit.Duration(time.Millisecond) }},
		"retention above": {
			"retention.for", func(s *Spec) { s.Retention.For = unit.Duration(maxRetention + time.Second) },
		},
		"overflow": {"overflow", func(s *Spec) { s.Overflow = "drop" }},
		"deferred too long": {
			"deferred.max_age", func(s *Spec) { s.Deferred.MaxAge = s.Retention.For + unit.Duration(time.Second) },
		},
		"deferred below":       {"deferred.max_age", func(s *Spec) { s.Deferred.MaxAge = unit.Duration(time.Millisecond) }},
		"low water of nothing": {"deferred.low_water", func(s *Spec) { s.Deferred.LowWater = -0.1 }},
		"low water of all":     {"deferred.low_water", func(s *Spec) { s.Deferred.LowWater = 1 }},
		"low water of NaN":     {"deferred.low_water", func(s *Spec) { s.Deferred.LowWater = math.NaN() }},
		"no job deferred":      {"deferred.max_jobs", func(s *Spec) { s.Deferred.MaxJobs = -1 }},
		"floor of ages": {"adapt.floor", func(s *Spec) {
			s.Burst, s.Adapt.Ceiling = 1000, leaky.PerSecond(1)
			s.Adapt.Floor, _ = leaky.ParseRate("1/d")
		}},
		"learns from nobody":    {"learn", func(s *Spec) { s.Learn = "openapi" }},
		"learns from no field":  {"learn", func(s *Spec) { s.Learn = "X-Left X Reset" }},
		"learns without a rate": {"learn", func(s *Spec) { s.Learn, s.Rate = "openai", leaky.Unlimited }},
		"learns and adapts": {"learn", func(s *Spec) {
			s.Learn, s.Adapt = "openai", Adapt{Floor: leaky.PerSecond(1), Ceiling: leaky.PerSecond(1)}
		}},
		"learns with a burst of ages": {"burst", func(s *Spec) { s.Learn, s.Burst = "openai", 1000 }},
		"hours": {"deferred.readmit_between", func(s *Spec) {
			s.Deferred.ReadmitBetween = ReadmitIn("at night")
		}},
		"retained below":    {"retention.max", func(s *Spec) { s.Retention.Max = -1 }},
		"retained above":    {"retention.max", func(s *Spec) { s.Retention.Max = 100_000_000 + 1 }},
		"deliver too long":  {"deliver", func(s *Spec) { s.Deliver = make([]byte, MaxDeliverBytes+1) }},
		"deliver broken":    {"deliver", func(s *Spec) { s.Deliver = []byte(`{"a":`) }},
		"deliver no object": {"deliver", func(s *Spec) { s.Deliver = []byte(`"a"`) }},
	} {
		s := Spec{Name: "q", Rate: leaky.PerSecond(1)}
		s.Normalize()
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		tt.change(&s)
		field(t, what, s.Validate(), tt.field)
	}
}

func TestSpecDefaults(t *testing.T) {
	s := Spec{Name: "q", Retry: Retry{MinBackoff: unit.Duration(time.Hour)}}
	s.Normalize()
	again := s
	again.Normalize()
	if !again.Equal(s) || s.Burst != 1 || s.Capacity != DefaultCapacity || s.Retry.MaxBackoff != unit.Duration(time.Hour) {
		t.Errorf("got %+v", s)
	}
	if p := s.Pacer(Horizon); p.Rate != s.Rate || p.Burst != 1 || p.Horizon != Horizon {
		t.Errorf("got %+v", p)
	}
}

// TestMark checks that either side has a place, whatever the capacity.
func TestMark(t *testing.T) {
	for _, tt := range []struct {
		capacity int64
		low      float64
		want     int64
	}{
		{1, 0.5, 1},
		{2, 0.5, 1},
		{2, 0.99, 1},
		{3, 0.5, 2},
		{10, 0.5, 5},
		{10, 0.01, 1},
		{10, 0.999, 9},
		{10_000, 0.5, 5000},
		{MaxCapacity, 0.5, MaxCapacity / 2},
	} {
		s := Spec{Capacity: tt.capacity, Deferred: Deferral{LowWater: tt.low}}
		if got := s.Mark(); got != tt.want {
			t.Errorf("capacity %d, low water %v: %d places, want %d", tt.capacity, tt.low, got, tt.want)
		}
	}
}
