package usage

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// counting returns a spec whose limits count units, and whose estimates are read from the payload.
func counting(units string, from map[string]string) *queue.Spec {
	s := &queue.Spec{Estimate: map[string]queue.Estimate{}}
	for _, unit := range strings.Fields(units) {
		s.Limits = append(s.Limits, queue.Limit{Unit: unit})
	}
	for unit, pointer := range from {
		s.Estimate[unit] = queue.Estimate{Default: 100, From: pointer}
	}
	return s
}

func TestCostsOfPayloads(t *testing.T) {
	e := EstimatesOf(counting("tokens", map[string]string{"tokens": "/max_tokens"}), nil)
	for payload, want := range map[string]string{
		`{"max_tokens": 500, "model": "x"}`:    "500",
		`{"max_tokens": 0}`:                    "0",
		`{"max_tokens": -0}`:                   "0",
		`{"max_tokens": 1e3}`:                  "1000",
		`{"max_tokens": 1000.0}`:               "1000",
		`{"max_tokens": 1000000000}`:           "1000000000",
		`{"max\u005ftokens": 7}`:               "7",
		`{"max_tokens": 1000000001}`:           "1000000001",
		`{"max_tokens": 1e99}`:                 "1e99",
		`{"max_tokens": 1e999}`:                "1e999",
		`{"max_tokens": -5}`:                   "-5",
		`{"max_tokens": 0.5}`:                  "0.5",
		`{"max_tokens": 1, "max_tokens": 2}`:   "appears 2 times",
		`{"max_tokens": 1, "max_tokens": "2"}`: "",
		`{"max_tokens": "500"}`:                "",
		`{"max_tokens": null}`:                 "",
		`{"max_tokens": true}`:                 "",
		`{"max_tokens": [500]}`:                "",
		`{"max_tokens": {"max_tokens": 500}}`:  "",
		`{"a": {"max_tokens": 500}}`:           "",
		`{"max_tokens": NaN}`:                  "",
		`{"max_tokens": 500`:                   "",
		`{"max_tokens": 500} {}`:               "",
		`[500]`:                                "",
		`500`:                                  "",
		"":                                     "",
		"hello":                                "",
		`{"x": "` + strings.Repeat("x", 1<<20) + `", "max_tokens": 500}`: "500",
		`{"max_tokens": ` + strings.Repeat("9", 1<<20) + `}`:             "9999",
	} {
		costs, err := e.Costs(nil, "", []byte(payload))
		var bad *invalid.Error
		switch {
		case err != nil:
			if !errors.As(err, &bad) || bad.Field != "payload.max_tokens" || want == "" ||
				!strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
				t.Errorf("%.50s: %v, want %q", payload, err, want)
			}
		case want == "" && costs != nil, want != "" && fmt.Sprint(costs["tokens"]) != want:
			t.Errorf("%.50s: %v, want %q", payload, costs, want)
		}
	}
}

// A job's own cost counts before what its payload states, and payloads of another type are not read.
func TestCostsThatAreStated(t *testing.T) {
	e := EstimatesOf(counting("tokens images", map[string]string{"tokens": "/n", "images": "/a/1"}), nil)
	body := []byte(`{"n": 5, "a": [1, 2]}`)
	for _, tt := range []struct {
		stated map[string]int64
		kind   string
		want   map[string]int64
	}{
		{nil, "", map[string]int64{"tokens": 5, "images": 2}},
		{nil, "application/json; charset=utf-8", map[string]int64{"tokens": 5, "images": 2}},
		{map[string]int64{"tokens": 0}, "", map[string]int64{"tokens": 0, "images": 2}},
		{map[string]int64{"tokens": 9, "images": 9}, "", map[string]int64{"tokens": 9, "images": 9}},
		{map[string]int64{"tokens": 9}, "text/plain", map[string]int64{"tokens": 9}},
	} {
		before := fmt.Sprint(tt.stated)
		got, err := e.Costs(tt.stated, tt.kind, body)
		if err != nil || !maps.Equal(got, tt.want) || fmt.Sprint(tt.stated) != before {
			t.Errorf("%v: %v, %v, want %v", tt.stated, got, err, tt.want)
		}
	}
	if got, err := e.Costs(map[string]int64{"tokens": 1}, "", []byte(`{"n": -1}`)); err != nil || got["tokens"] != 1 {
		t.Errorf("%v, %v: a number is judged that does not count", got, err)
	}
}

// ofLanes adds a limit of each lane, and ofLane of a single one.
func ofLanes(s *queue.Spec, unit string) *queue.Spec {
	s.Lanes.Limits = queue.LimitLane(queue.Limit{Unit: unit, Rate: leaky.PerSecond(1)})
	return s
}

func ofLane(s *queue.Spec, unit string) *queue.Spec {
	limits := queue.LimitLane(queue.Limit{Unit: unit, Rate: leaky.PerSecond(1)})
	s.Lanes.Overrides = map[string]queue.LaneRule{"acme": {Limits: limits}}
	return s
}

// Only units that a limit counts are read, by the queue's estimate or else its parent's.
func TestEstimatesOf(t *testing.T) {
	body := []byte(`{"own": 1, "parents": 2}`)
	own, parents := map[string]string{"tokens": "/own"}, map[string]string{"tokens": "/parents"}
	for name, tt := range map[string]struct {
		of, parent *queue.Spec
		want       int64 // 0 for none
	}{
		"own":                        {counting("tokens", own), nil, 1},
		"own before the parent's":    {counting("", own), counting("tokens", parents), 1},
		"the parent's":               {counting("tokens", nil), counting("", parents), 2},
		"of the parent's limit":      {counting("", nil), counting("tokens", parents), 2},
		"an own one without pointer": {counting("", map[string]string{"tokens": ""}), counting("tokens", parents), 0},
		"uncounted":                  {counting("images", own), counting("jobs", parents), 0},
		"of a limit of lanes":        {ofLanes(counting("", own), "tokens"), nil, 1},
		"of a limit of some lane":    {ofLane(counting("", nil), "tokens"), counting("", parents), 2},
		"of the parent's lanes":      {counting("", own), ofLanes(counting("", nil), "tokens"), 0},
	} {
		e := EstimatesOf(tt.of, tt.parent)
		costs, err := e.Costs(nil, "", body)
		if err != nil || costs["tokens"] != tt.want || (e == nil) != (tt.want == 0) {
			t.Errorf("%s: %v, %v, want %d", name, costs, err, tt.want)
		}
	}
}

func TestDropped(t *testing.T) {
	stated, costs := map[string]int64{"images": 1}, map[string]int64{"images": 1, "tokens": 5}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{queue.UncountedUnit("costs", "tokens", "q"), true},
		{fmt.Errorf("no turn: %w", queue.UncountedUnit("costs", "tokens", "q")), true},
		{queue.UncountedUnit("costs", "images", "q"), false},
		{queue.MissingCost("calls", "q"), false},
		{invalid.Errorf("tokens", "", "is wrong"), false},
		{queue.ErrUnavailable, false},
		{nil, false},
	} {
		if got := Dropped(tt.err, stated, costs); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
	if Dropped(queue.UncountedUnit("costs", "images", "q"), stated, stated) {
		t.Error("nothing was added")
	}
}
