package queuetest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// circuit draws a queue's circuit settings.
func (p *pair) circuit(s *queue.Spec) {
	s.Circuit.Failures = rapid.Int64Range(1, 3).Draw(p.T, "failures")
	s.Circuit.MinProbe = unit.Duration(rapid.SampledFrom([]int{1, 10, 100, 1000}).Draw(p.T,
		"probed in ms")) * unit.Duration(time.Millisecond)
	s.Circuit.MaxProbe = s.Circuit.MinProbe * unit.Duration(rapid.IntRange(1, 9).Draw(p.T, "longest"))
	slow := rapid.SampledFrom([]int{1, 5, 60}).Draw(p.T, "slow in s")
	s.Circuit.Slow = unit.Duration(slow) * unit.Duration(time.Second)
	s.Circuit.Off = rapid.IntRange(0, 3).Draw(p.T, "off") == 0
}

// stopText formats a queue's stop and circuit.
func stopText(i queue.Info) string {
	return fmt.Sprintf("stops until %s %s %q, circuit %d %s %v %q", micro(i.Stop.Until), i.Stop.Cause, i.Stop.Reason,
		i.Circuit.Failures, micro(i.Circuit.Opened), i.Circuit.Probe.D(),
		i.Circuit.Reason)
}
