package machine_test

import (
	"fmt"
	"math/bits"
	"testing"
	"time"
)

// tookTimes counts durations, in buckets of a sixteenth of an octave.
type tookTimes struct {
	buckets [64 * 16]int64
	n       int64
}

func (h *tookTimes) add(d time.Duration) {
	h.n++
	h.buckets[bucketOf(uint64(max(d, 0)))]++
}

// bucketOf is exact below 32 ns; above that the four bits behind the first one count.
func bucketOf(ns uint64) int {
	if ns < 32 {
		return int(ns)
	}
	octave := bits.Len64(ns) - 5
	return octave<<4 + int(ns>>octave)
}

// quantile is the duration in the middle of the bucket that so large a part of all does not exceed.
func (h *tookTimes) quantile(part float64) time.Duration {
	left := int64(part * float64(h.n))
	for i, n := range h.buckets {
		if left -= n; left < 0 {
			if i < 32 {
				return time.Duration(i)
			}
			octave := i>>4 - 1
			return time.Duration(i-octave<<4)<<octave + 1<<octave/2
		}
	}
	return 0
}

type sizeRow struct {
	alive, each int
	memory      []float64
	left        float64
	took        [operations]tookTimes
}

type sizeTable struct {
	of   string
	rows []sizeRow
}

func (s *sizeTable) add(t *testing.T, r sizeRow) {
	s.rows = append(s.rows, r)
	line := fmt.Sprintf("%s %d: memory %.0f left %.1f", s.of, r.alive, r.memory, r.left)
	for op := range r.took {
		h := &r.took[op]
		line += fmt.Sprintf("  %d: %v %v", op, h.quantile(.5), h.quantile(.99))
	}
	t.Log(line)
}

func (s *sizeTable) check(t *testing.T) {}

func writeSizes(string, ...sizeTable) error { return nil }
