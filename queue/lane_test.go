package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
)

func TestLaneKeys(t *testing.T) {
	for _, key := range []string{
		"", "a", " ", "\x00", "\n", "{a}", "a:b", "ä", "日本", "\U0010ffff", "\ufffd", strings.Repeat("x", MaxLaneBytes),
		strings.Repeat("ä", MaxLaneBytes/2),
	} {
		if err := ValidateLane(key); err != nil {
			t.Errorf("%.40q: %v", key, err)
		}
	}
	for b := range 256 { // single bytes are keys if they are ASCII
		key := string([]byte{byte(b)})
		if err := ValidateLane(key); (err == nil) != (b < utf8.RuneSelf) {
			t.Errorf("%q: %v", key, err)
		} else if err != nil {
			field(t, fmt.Sprintf("%q", key), err, "lane")
		}
	}
	for _, key := range []string{
		strings.Repeat("x", MaxLaneBytes+1), strings.Repeat("x", MaxLaneBytes) + "\xff",
		strings.Repeat("x", 10_000_000), "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80",
	} {
		field(t, clip.Quote(key, 40), ValidateLane(key), "lane")
	}
}

func TestDigestLane(t *testing.T) {
	if DigestLane("") != (LaneDigest{}) {
		t.Error("the lane of jobs without a key lacks the zero digest")
	}
	seen := map[LaneDigest]string{}
	for _, key := range []string{
		"", "a", "A", "a ", " a", "a\x00", "b", strings.Repeat("a", MaxLaneBytes), strings.Repeat("a", MaxLaneBytes-1),
	} {
		if other, ok := seen[DigestLane(key)]; ok {
			t.Errorf("%q and %q are one lane", key, other)
		}
		seen[DigestLane(key)] = key
	}
	// It is kept in stores and must not change: printf a | sha256sum.
	if got := fmt.Sprintf("%x", DigestLane("a")); got != "ca978112ca1bbdcafac231b39a23dc4d" {
		t.Errorf("the digest of a is %s", got)
	}
}

func TestLaneRules(t *testing.T) {
	rate := func(n int64) LaneRule { return LaneRule{Rate: leaky.PerSecond(n)} }
	l := Lanes{LaneRule: rate(1), Overrides: map[string]LaneRule{"fast": rate(100), "free": {}}}
	for key, want := range map[string]LaneRule{"": {}, "a": rate(1), "fast": rate(100), "free": {}, "Fast": rate(1)} {
		if got := l.Of(key); got != want {
			t.Errorf("%q: %+v, want %+v", key, got, want)
		}
	}
	if got := (&Lanes{Overrides: map[string]LaneRule{"a": rate(5)}}).Of("b"); got != (LaneRule{}) {
		t.Errorf("without a common rule b has %+v", got)
	}
	p := LaneRule{Rate: leaky.PerSecond(7)}.Pacer()
	if p.Burst != 1 || p.Horizon != Horizon || p.Rate != leaky.PerSecond(7) {
		t.Errorf("got %+v", p)
	}
	if p := (LaneRule{Burst: 3}).Pacer(); p.Burst != 3 || !p.Rate.Unlimited() {
		t.Errorf("got %+v", p)
	}
}

func TestLaneRulesRefuse(t *testing.T) {
	override := func(key string, r LaneRule) func(*Spec) {
		return func(s *Spec) { s.Lanes.Overrides = map[string]LaneRule{"good": {}, key: r} }
	}
	many := map[string]LaneRule{}
	for i := range maxLaneOverrides {
		many[fmt.Sprint("k", i)] = LaneRule{}
	}
	day, err := leaky.NewRate(1, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		field  string
		change func(*Spec)
	}{
		"burst below":          {"lanes.burst", func(s *Spec) { s.Lanes.Burst = -1 }},
		"burst above":          {"lanes.burst", func(s *Spec) { s.Lanes.Burst = leaky.MaxBurst + 1 }},
		"burst of ages":        {"lanes.burst", func(s *Spec) { s.Lanes.LaneRule = LaneRule{Rate: day, Burst: 1000} }},
		"capacity below":       {"lanes.capacity", func(s *Spec) { s.Lanes.Capacity = -1 }},
		"capacity above":       {"lanes.capacity", func(s *Spec) { s.Lanes.Capacity = MaxCapacity + 1 }},
		"in flight below":      {"lanes.max_in_flight", func(s *Spec) { s.Lanes.MaxInFlight = -1 }},
		"in flight above":      {"lanes.max_in_flight", func(s *Spec) { s.Lanes.MaxInFlight = MaxMaxInFlight + 1 }},
		"queue's below":        {"max_in_flight", func(s *Spec) { s.MaxInFlight = -1 }},
		"queue's above":        {"max_in_flight", func(s *Spec) { s.MaxInFlight = MaxMaxInFlight + 1 }},
		"scheduled below":      {"max_scheduled", func(s *Spec) { s.MaxScheduled = -1 }},
		"scheduled above":      {"max_scheduled", func(s *Spec) { s.MaxScheduled = MaxCapacity + 1 }},
		"an override for none": {"lanes.overrides", override("", LaneRule{})},
		"a key of 257 bytes":   {"lanes.overrides", override(strings.Repeat("x", MaxLaneBytes+1), LaneRule{})},
		"a key not UTF-8":      {"lanes.overrides", override("\xff", LaneRule{})},
		"an override's burst":  {"lanes.overrides.a.burst", override("a", LaneRule{Burst: -1})},
		"an override's places": {"lanes.overrides.a.capacity", override("a", LaneRule{Capacity: -1})},
		"too many overrides": {"lanes.overrides", func(s *Spec) {
			s.Lanes.Overrides = map[string]LaneRule{"one more": {}}
			for key, r := range many {
				s.Lanes.Overrides[key] = r
			}
		}},
	} {
		s := Spec{Name: "q", Rate: leaky.PerSecond(1)}
		s.Normalize()
		tt.change(&s)
		field(t, what, s.Validate(), tt.field)
	}
	s := Spec{
		Name: "q", Rate: leaky.PerSecond(1),
		Lanes: Lanes{
			LaneRule:  LaneRule{Rate: day, Burst: 2, Capacity: MaxCapacity, MaxInFlight: MaxMaxInFlight},
			Overrides: many,
		},
	}
	s.Normalize()
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}
