package rules

import (
	"slices"
	"testing"
)

// An algorithm is whole when its row names the limiter that it makes, and numbers that a bound has. What engines need
// of it the suite asks: it runs over all of them.
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
