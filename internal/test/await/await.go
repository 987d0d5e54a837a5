// Package await waits in tests for what another goroutine or process does. Tests do not depend on how long that took.
package await

import (
	"testing"
	"time"
)

const (
	patience = time.Minute
	pause    = 2 * time.Millisecond
)

// Until polls for a condition, and fails the test if that takes far too long.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}
