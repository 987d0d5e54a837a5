package receiver

import (
	"testing"
	"time"
)

func TestConvert(t *testing.T) {
	const (
		ms  = int64(time.Millisecond)
		day = 24 * 3600 * 1000 * ms // the wall clock's time at the start of the run
	)
	zero := span{day, day + 2000}
	now := 50 * time.Millisecond
	tests := []struct {
		name   string
		stamp  int64
		seen   span
		at     time.Duration
		kernel bool
	}{
		{"in time", day + 20*ms + 1000, zero, 20 * time.Millisecond, true},
		{"just now, by clocks read a little apart", day + 50*ms + 300_000, zero, now, true},
		{"later than now", day + 51*ms, zero, now, false},
		{"before the run", day - ms, zero, now, false},
		{
			"both clocks, with an interruption between them", day + 20*ms + 1000,
			span{day - 30*ms, day + 10},
			20 * time.Millisecond, true,
		},
		{"the wall clock was set forward", day + 20*ms, span{day + ms, day + ms + 2000}, now, false},
		{"the wall clock was set back", day + 20*ms, span{day - 40*ms, day - ms}, now, false},
	}
	for _, tt := range tests {
		if at, kernel := convert(tt.stamp, zero, tt.seen, now); at != tt.at || kernel != tt.kernel {
			t.Errorf("%s: %v by the kernel %v, want %v %v", tt.name, at, kernel, tt.at, tt.kernel)
		}
	}
}
