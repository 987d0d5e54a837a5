package queue

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
)

func TestRuleNames(t *testing.T) {
	for _, tt := range []struct {
		queue             string
		parent, own, want []string
	}{
		{"q", nil, nil, nil},
		{"q", nil, []string{"q", "q.b", "other", "q.a"}, []string{"q", "q.b", "q.a"}},
		{
			"q.c",
			[]string{"q.p", "x.p", "q.both"},
			[]string{"q.own", "q.both", "qq.own"},
			[]string{"q.p", "q.both", "q.own"},
		},
	} {
		if got := RuleNames(tt.queue, tt.parent, tt.own); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func ruleset(t *testing.T, rules ...Rule) Ruleset {
	var s Ruleset
	for _, r := range rules {
		r.Algorithm, r.Limit, r.Period = leaky.AlgorithmFixedWindow, max(1, r.Limit), minute
		r.Normalize()
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		k, err := ParseKeyTemplate(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, ParsedRule{r, k})
	}
	return s
}

func TestAsks(t *testing.T) {
	five, nine := Bound{Limit: 5}, map[string]Bound{"vip": {Limit: 9, Period: minute}}
	s := ruleset(t, Rule{Name: "all", Bound: five}, Rule{Name: "lane", Bound: five, Key: "{lane}", Overrides: nine},
		Rule{Name: "to", Bound: five, Key: "{payload/to}", Action: Shadow}, Rule{Name: "small", Action: Shadow})
	for _, tt := range []struct {
		job  Job
		want []string // rule, key and limit
		lack string
	}{
		{
			Job{Lane: "a", Payload: []byte(`{"to":"x"}`), Cost: 1},
			[]string{"all", "", "5", "lane", "a", "5", "to", "x", "5", "small", "", "1"},
			"",
		},
		// shadows that cannot be asked refuse nothing
		{Job{Lane: "vip", Payload: []byte(`{}`), Cost: 5}, []string{"all", "", "5", "lane", "vip", "9"}, ""},
		{Job{Payload: []byte(`{"to":"x"}`), Cost: 1}, nil, "lane"},
		{Job{Lane: "vip", Cost: 6}, nil, "cost"},
	} {
		asks, err := s.Asks(&tt.job)
		var got []string
		for _, a := range asks {
			got = append(got, a.Rule.Name, a.Key, string(rune('0'+a.Limiter.Limit())))
		}
		var fe *FieldError
		if lacks := errors.As(err, &fe); !slices.Equal(got, tt.want) || lacks != (tt.lack != "") ||
			lacks && fe.Field != tt.lack {
			t.Errorf("%+v asks %v, %v", tt.job, got, err)
		}
	}
	if asks, err := Ruleset(nil).Asks(&Job{}); len(asks) > 0 || err != nil {
		t.Errorf("%v, %v", asks, err)
	}
}

func TestLimited(t *testing.T) {
	no := func(rule string, wait time.Duration, shadow bool) Ruled {
		return Ruled{Rule: rule, Shadow: shadow, Decision: leaky.Decision{RetryAfter: wait}}
	}
	yes := Ruled{Rule: "yes", Decision: leaky.Decision{Allowed: true}}
	for _, tt := range []struct {
		said []Ruled
		rule string
		wait time.Duration
	}{
		{nil, "", 0},
		{[]Ruled{yes, no("shadow", 9, true)}, "", 0},
		{[]Ruled{yes, no("a", 3, false), no("b", 5, false), no("c", 5, false), no("shadow", 9, true)}, "b", 5},
	} {
		if rule, wait, limited := Limited(tt.said); rule != tt.rule || wait != tt.wait || limited != (tt.rule != "") {
			t.Errorf("%+v: %s, %v, %v", tt.said, rule, wait, limited)
		}
	}
}
