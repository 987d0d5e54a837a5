package api_test

import "testing"

// leastHostile is how many requests the hostile suite has at least, each with the answer that it must get. The tests of
// apps, sessions and the audit log send others.
const leastHostile = 180

func TestHostileSuiteIsLarge(t *testing.T) {
	different := map[string]bool{}
	for _, list := range [][]hostile{smuggled(), ofPages(), ofTexts()} {
		for i := range list {
			different[list[i].raw] = true
		}
	}
	if len(different) < leastHostile {
		t.Errorf("the hostile suite has %d different requests, want %d", len(different), leastHostile)
	}
	t.Logf("%d different requests", len(different))
}
