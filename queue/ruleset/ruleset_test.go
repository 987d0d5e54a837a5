package ruleset

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
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
		if got := Names(tt.queue, tt.parent, tt.own); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func setOf(t *testing.T, asked ...rules.Rule) Set {
	var s Set
	for _, r := range asked {
		r.Algorithm, r.Limit, r.Period = leaky.AlgorithmFixedWindow, max(1, r.Limit), unit.Duration(time.Minute)
		r.Normalize()
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		k, err := rules.ParseTemplate(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, ParsedRule{r, k})
	}
	return s
}

func TestAsks(t *testing.T) {
	five, nine := rules.Bound{Limit: 5}, map[string]rules.Bound{"vip": {Limit: 9, Period: unit.Duration(time.Minute)}}
	s := setOf(t, rules.Rule{Name: "all", Bound: five},
		rules.Rule{Name: "lane", Bound: five, Key: "{lane}", Overrides: nine},
		rules.Rule{Name: "to", Bound: five, Key: "{payload/to}", Action: rules.Shadow},
		rules.Rule{Name: "small", Action: rules.Shadow})
	for _, tt := range []struct {
		job  queue.Job
		want []string // rule, key and limit
		lack string
	}{
		{
			queue.Job{Lane: "a", Payload: []byte(`{"to":"x"}`), Cost: 1},
			[]string{"all", "", "5", "lane", "a", "5", "to", "x", "5", "small", "", "1"},
			"",
		},
		// shadows that cannot be asked refuse nothing
		{queue.Job{Lane: "vip", Payload: []byte(`{}`), Cost: 5}, []string{"all", "", "5", "lane", "vip", "9"}, ""},
		{queue.Job{Payload: []byte(`{"to":"x"}`), Cost: 1}, nil, "lane"},
		{queue.Job{Lane: "vip", Cost: 6}, nil, "cost"},
	} {
		asks, err := s.Asks(&tt.job)
		var got []string
		for _, a := range asks {
			got = append(got, a.Rule.Name, a.Key, string(rune('0'+a.Limiter.Limit())))
		}
		var fe *invalid.Error
		if lacks := errors.As(err, &fe); !slices.Equal(got, tt.want) || lacks != (tt.lack != "") ||
			lacks && fe.Field != tt.lack {
			t.Errorf("%+v asks %v, %v", tt.job, got, err)
		}
	}
	if asks, err := Set(nil).Asks(&queue.Job{}); len(asks) > 0 || err != nil {
		t.Errorf("%v, %v", asks, err)
	}
}

func TestLimited(t *testing.T) {
	no := func(rule string, wait time.Duration, shadow bool) rules.Ruling {
		return rules.Ruling{Rule: rule, Shadow: shadow, Decision: leaky.Decision{RetryAfter: wait}}
	}
	yes := rules.Ruling{Rule: "yes", Decision: leaky.Decision{Allowed: true}}
	for _, tt := range []struct {
		said []rules.Ruling
		rule string
		wait time.Duration
	}{
		{nil, "", 0},
		{[]rules.Ruling{yes, no("shadow", 9, true)}, "", 0},
		{[]rules.Ruling{yes, no("a", 3, false), no("b", 5, false), no("c", 5, false), no("shadow", 9, true)}, "b", 5},
	} {
		if rule, wait, limited := rules.Limited(tt.said); rule != tt.rule || wait != tt.wait || limited != (tt.rule != "") {
			t.Errorf("%+v: %s, %v, %v", tt.said, rule, wait, limited)
		}
	}
}
