package app

import (
	"math"
	"runtime/debug"
	"testing"
)

// The collector is told to stay far below the maximum: it may come late, and does not know of the program's own pages.
// A bound that the operator sets goes before.
func TestCollectBefore(t *testing.T) {
	for set, want := range map[string]int64{"": 384 << 20, "1GiB": math.MaxInt64} {
		t.Setenv("GOMEMLIMIT", set)
		before := debug.SetMemoryLimit(math.MaxInt64)
		collectBefore(512 << 20)
		if got := debug.SetMemoryLimit(before); got != want {
			t.Errorf("GOMEMLIMIT=%s: %d bytes, want %d", set, got, want)
		}
	}
}
