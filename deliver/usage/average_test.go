package usage

import (
	"maps"
	"net/http"
	"testing"
)

// What is charged counts until enough answers state what calls use; then the latest of them do.
func TestPerCall(t *testing.T) {
	plan, err := Setting{"tokens": {Header: "x-tokens"}}.Plan("actual")
	if err != nil {
		t.Fatal(err)
	}
	charged := map[string]int64{"tokens": 800, "images": 2}
	want := func(tokens float64) {
		t.Helper()
		if got := plan.PerCall(charged); !maps.Equal(got, map[string]float64{"tokens": tokens, "images": 2}) {
			t.Errorf("%v, want %v tokens", got, tokens)
		}
	}
	answer := func(text string, times int) {
		for range times {
			plan.Read(http.Header{"X-Tokens": {text}}, charged).End(true)
		}
	}
	want(800)
	answer("NaN", 1)
	answer("0", 10) // refused
	want(800)
	answer("160", 32) // half of what an average needs
	want(480)
	answer("160", 32)
	want(160)
	answer("1000", 10*averageOf)
	if got := plan.PerCall(charged)["tokens"]; got < 999 || got > 1000 {
		t.Errorf("%v after many more", got)
	}
	if got := plan.PerCall(nil); got != nil {
		t.Errorf("%v of no units", got)
	}
	if got := (*Plan)(nil).PerCall(charged); !maps.Equal(got, map[string]float64{"tokens": 800, "images": 2}) {
		t.Errorf("%v without a plan", got)
	}
}
