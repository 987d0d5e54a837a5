//go:build !linux

package machine_test

import "time"

var began = time.Now()

// processorTime returns the wall time, where the thread's own is unknown.
func processorTime() time.Duration { return time.Since(began) }
