package app

import (
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
)

// Readiness names the queue that hangs with the most handlers, and says that the others go on.
func TestHangingIsToldByReadiness(t *testing.T) {
	if err := hanging([]drain.QueueUse{{Queue: "a", Handlers: 90, Short: true}}); err != nil {
		t.Errorf("nothing hangs, but: %v", err)
	}
	err := hanging([]drain.QueueUse{
		{Queue: "a", Handlers: 90, Short: true},
		{Queue: "b", Handlers: 60, Hanging: true, Longest: 61 * time.Second},
		{Queue: "c", Handlers: 9, Hanging: true},
	})
	want := "queue b hangs: its receiver does not answer; it holds 60 handlers, the longest for 1m1s; more hanging " +
		"queues: 1; other queues go on; check its target, and lower its timeout"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
