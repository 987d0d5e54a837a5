package queuecmd

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// The shown rate is the present one, with the reason of its last change.
func TestAdaptedRateIsShown(t *testing.T) {
	q := &wire.Queue{Flow: &wire.Flow{}}
	q.Rate, q.Burst = leaky.PerSecond(10), 1
	if Rate(q) != "10/s" || adaptText(q) != "" {
		t.Errorf("one that does not adapt has %q, %q", Rate(q), adaptText(q))
	}
	q.Adapt = queue.Adapt{Floor: leaky.PerSecond(2), Ceiling: leaky.PerSecond(20)}
	lowered, err := leaky.ParseRate("7.5/s")
	if err != nil {
		t.Fatal(err)
	}
	q.Adapted = &wire.Adapted{Rate: lowered, PerSecond: lowered.PerSecond(), Changes: []queue.RateChange{
		{At: time.Now(), From: leaky.PerSecond(10), To: lowered, Cause: queue.AdaptedThrottled, Reason: "429 slow down"},
	}}
	if Rate(q) != "7.5/s" || !strings.HasPrefix(paceText(q), "7.5/s (one each 133.333333ms)") {
		t.Errorf("the rate is shown as %q, %q", Rate(q), paceText(q))
	}
	got := adaptText(q)
	for _, want := range []string{
		"from 2/s to 20/s", "starts at 10/s", "lowered from 10/s", "throttled: 429 slow down",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}
