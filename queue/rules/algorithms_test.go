package rules

import (
	"slices"
	"testing"
)

// An algorithm is complete if its row names the limiter that it makes, and numbers of a bound. The conformance suite
// checks what engines need: it covers all algorithms.
func TestAlgorithmsAreComplete(t *testing.T) {
	for n, row := range algorithms {
		if row.limiter == nil || row.limiter(&Bound{}).Algorithm() != row.name {
			t.Errorf("%s makes another limiter, or none", row.name)
		}
		if slices.Index(Algorithms(), row.name) != n {
			t.Errorf("%s has two rows", row.name)
		}
		if len(row.numbers) == 0 {
			t.Errorf("%s goes by no numbers", row.name)
		}
		for _, number := range row.numbers {
			if _, known := needed[number]; !known && number != "burst" && number != "resolution" {
				t.Errorf("%s goes by %s, which no bound has", row.name, number)
			}
		}
	}
}
