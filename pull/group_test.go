package pull_test

import (
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// A worker gets no more jobs of a pull child than its parent lets out at once. The rest would be given back, and their
// slots would be lost to the siblings.
func TestThePaceOfTheParentIsKnown(t *testing.T) {
	b := start(t, pull.Options{}, nil)
	b.put("ses", "10/s", func(s *queue.Spec) { s.Pull, s.Burst = false, 2 })
	b.put("ses.live", "unlimited")
	b.put("alone.live", "unlimited")
	b.take("ses.live", 9, 0) // reads the specs
	b.take("alone.live", 9, 0)
	for _, tc := range []struct {
		name        string
		rate, want  leaky.Rate
		burst, most int64
	}{
		{"ses.live", leaky.Unlimited, leaky.PerSecond(10), 5, 2},
		{"ses.live", leaky.PerSecond(20), leaky.PerSecond(10), 5, 2},
		{"ses.live", leaky.PerSecond(3), leaky.PerSecond(3), 5, 5},
		{"alone.live", leaky.Unlimited, leaky.Unlimited, 5, 5},
		{"alone", leaky.PerSecond(3), leaky.PerSecond(3), 5, 5},
	} {
		spec := &queue.Spec{Name: tc.name, Rate: tc.rate, Burst: tc.burst, Pull: true}
		if got := pull.InGroup(b.dispatcher, spec); got.Rate != tc.want || got.Burst != tc.most || !got.Pull {
			t.Errorf("%s at %s: %s, burst %d; want %s, burst %d", tc.name, tc.rate, got.Rate, got.Burst, tc.want, tc.most)
		}
		if spec.Rate != tc.rate {
			t.Errorf("the known spec of %s was changed", tc.name)
		}
	}
}
