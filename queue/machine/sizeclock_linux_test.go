package machine_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what this thread has used: what else the machine does takes nothing away from it.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
