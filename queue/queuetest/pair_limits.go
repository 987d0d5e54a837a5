package queuetest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
)

// limits draws limits beside the rate of a queue.
func (p *pair) limits(s *queue.Spec) {
	s.Limits = nil
	if !p.limited {
		return
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3}).Draw(p.T, "limits") {
		var l queue.Limit
		switch rapid.IntRange(0, 2).Draw(p.T, "kind of limit") {
		case 0:
			l.Rate = laneRate(rapid.SampledFrom([]string{"3/s", "14/s", "30/m", "1/s"}).Draw(p.T, "further pace")).Rate
			l.Burst = rapid.Int64Range(0, 3).Draw(p.T, "its burst")
		default:
			l.Quota.Max = rapid.Int64Range(1, 6).Draw(p.T, "quota")
			l.Quota.Per = rapid.SampledFrom([]string{"m", "m", "m", "m", "h", "d", "w", "mo"}).Draw(p.T, "per")
			if l.Quota.Per != "m" && l.Quota.Per != "h" {
				l.Timezone = rapid.SampledFrom([]string{"", "Europe/Berlin", "America/New_York"}).Draw(p.T, "zone")
			}
		}
		s.Limits = append(s.Limits, l)
	}
}

// limitStates formats the used part of quotas. After a restart an embedded store may show more.
func limitStates(i queue.Info) string {
	var b strings.Builder
	for _, l := range i.Limits {
		fmt.Fprintf(&b, " %d until %d", l.Window.Used, l.Window.Ends)
	}
	return b.String()
}
