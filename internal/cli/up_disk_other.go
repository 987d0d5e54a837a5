//go:build !linux && !darwin

package cli

import "math"

// freeBytes takes it that there is room enough.
func freeBytes(string) (uint64, error) { return math.MaxUint64, nil }
