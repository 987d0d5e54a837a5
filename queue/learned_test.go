package queue

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/leaky"
)

func TestPackLearned(t *testing.T) {
	h := leaky.Histogram("").Add(7).Add(1e9)
	for _, list := range [][]LearnedCosts{nil, {{"a", h}}, {{"images", ""}, {"tokens", h}}} {
		text := PackLearned(list)
		if got, err := UnpackLearned(text); err != nil || !slices.Equal(got, list) {
			t.Errorf("%v, %v; want %v", got, err, list)
		}
		for n := range text {
			got, err := UnpackLearned(text[:n])
			if err != nil && !errors.Is(err, ErrCorrupt) || err == nil && !slices.Equal(got, list[:len(got)]) {
				t.Errorf("%q: %v, %v", text[:n], got, err)
			}
		}
	}
	for _, list := range [][]LearnedCosts{
		{{"", h}}, {{"A", h}}, {{"a", "x"}}, {{"b", h}, {"a", h}}, {{"a", h}, {"a", h}}, {{strings.Repeat("a", 33), h}},
	} {
		if got, err := UnpackLearned(PackLearned(list)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestEstimatesForScripts(t *testing.T) {
	s := Spec{Estimate: map[string]Estimate{
		"tokens": {Default: 1000, Learn: "p95", From: "/max_tokens"}, "images": {Default: 2},
	}}
	if got := s.Estimates(); got != "images=2 tokens=1000~95" {
		t.Error(got)
	}
}
