//go:build !linux

package machine_test

import "time"

var began = time.Now()

// processorTime is the time, where a thread's own is not known.
func processorTime() time.Duration { return time.Since(began) }
