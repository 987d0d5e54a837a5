package prove

import (
	"testing"

	"github.com/penstock/penstock/leaky"
)

// On a fast machine every rule sees some callers hang up, even in a short run.
func TestSomeHangUpOnEveryKey(t *testing.T) {
	o := RulesOptions{Rate: leaky.PerSecond(10), Keys: 2, Callers: 16}
	rules, err := o.rules("prove-x")
	if err != nil {
		t.Fatal(err)
	}
	q, err := newQuestions(&o, rules)
	if err != nil {
		t.Fatal(err)
	}
	left := make([]int, len(q.accounts))
	for turn := range 4 * 30 { // of 4 s
		for me := range o.Callers {
			if leaves(turn+1, me) {
				left[q.chosen(int64(turn+1), me)]++
			}
		}
	}
	for at, n := range left {
		if n == 0 {
			t.Errorf("nobody hangs up on key %d of %s: %v", at%q.keys+1, rules[at/q.keys].rule.Name, left)
		}
	}
}
