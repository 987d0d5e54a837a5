// Package await waits in tests for what another goroutine or process does. Tests do not depend on how long that took.
package await

import (
	"testing"
	"time"
)

const (
	patience = time.Minute
	minPause = 2 * time.Millisecond
	maxPause = 50 * time.Millisecond
)

// Until polls for a condition, and fails the test if that takes far too long.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for begun := time.Now(); !done(); Pause(begun) {
		if time.Since(begun) > patience {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// Pause sleeps between two polls of a wait that began at an instant: for a tenth of the time waited so far, and for
// 2 to 50 ms. Polls may be requests that cost milliseconds, and would take the processor from what the test waits for.
func Pause(begun time.Time) { time.Sleep(min(max(time.Since(begun)/10, minPause), maxPause)) }
