package machine_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns the time that this thread has used, so that other processes do not count.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
