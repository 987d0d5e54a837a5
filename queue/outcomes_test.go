package queue

import (
	"slices"
	"strings"
	"testing"
)

// An outcome is complete if its row has a unique name, a refusal has its texts, a refusal for lack of room has its
// counter, and scripts answer it.
func TestOutcomesAreComplete(t *testing.T) {
	scripts, seen := sources(t, "redisq/lua/*/*.lua"), map[string]bool{}
	for _, o := range AppendOutcomes() {
		if o.String() == "" || seen[o.String()] {
			t.Errorf("outcome %d is called %q", o, o)
		}
		seen[o.String()] = true
		if c := o.Counter(); c != "" && !slices.ContainsFunc(CounterTable, func(row Counter) bool { return row.Name == c }) {
			t.Errorf("there is no counter %s, by which %v is counted", c, o)
		}
		r := o.Refusal()
		if r == nil {
			continue
		}
		if r.Code != o.String() || r.Status < 400 || r.Title == "" {
			t.Errorf("the refusal of %v is not complete: %+v", o, r)
		}
		if r.Status == 429 && o.Counter() == "" {
			t.Errorf("no counter counts %v", o)
		}
		// UnknownQueue is the answer for all jobs of a queue.
		if o != UnknownQueue && !strings.Contains(scripts, strings.ToUpper(r.Code)) {
			t.Errorf("redisq never answers %v", o)
		}
	}
}
