package ruleset

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
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

func setOf(t *testing.T, rules ...queue.Rule) Set {
	var s Set
	for _, r := range rules {
		r.Algorithm, r.Limit, r.Period = leaky.AlgorithmFixedWindow, max(1, r.Limit), queue.Duration(time.Minute)
		r.Normalize()
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		k, err := queue.ParseKeyTemplate(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, ParsedRule{r, k})
	}
	return s
}

func TestAsks(t *testing.T) {
	five, nine := queue.Bound{Limit: 5}, map[string]queue.Bound{"vip": {Limit: 9, Period: queue.Duration(time.Minute)}}
	s := setOf(t, queue.Rule{Name: "all", Bound: five},
		queue.Rule{Name: "lane", Bound: five, Key: "{lane}", Overrides: nine},
		queue.Rule{Name: "to", Bound: five, Key: "{payload/to}", Action: queue.Shadow},
		queue.Rule{Name: "small", Action: queue.Shadow})
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
		var fe *queue.FieldError
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
	no := func(rule string, wait time.Duration, shadow bool) queue.Ruled {
		return queue.Ruled{Rule: rule, Shadow: shadow, Decision: leaky.Decision{RetryAfter: wait}}
	}
	yes := queue.Ruled{Rule: "yes", Decision: leaky.Decision{Allowed: true}}
	for _, tt := range []struct {
		said []queue.Ruled
		rule string
		wait time.Duration
	}{
		{nil, "", 0},
		{[]queue.Ruled{yes, no("shadow", 9, true)}, "", 0},
		{[]queue.Ruled{yes, no("a", 3, false), no("b", 5, false), no("c", 5, false), no("shadow", 9, true)}, "b", 5},
	} {
		if rule, wait, limited := queue.Limited(tt.said); rule != tt.rule || wait != tt.wait || limited != (tt.rule != "") {
			t.Errorf("%+v: %s, %v, %v", tt.said, rule, wait, limited)
		}
	}
}
