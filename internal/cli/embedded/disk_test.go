package embedded

import (
	"testing"

	"github.com/penstock/penstock/deferred"
)

func TestOverflowBytes(t *testing.T) {
	for _, tt := range []struct {
		free uint64
		want int64
	}{
		{0, 1 << 20},
		{5 << 20, 2 << 20},
		{64<<20 - 1, 16 << 20},
		{64 << 20, 32 << 20},
		{20<<30 - 1, 8 << 30},
		{20 << 30, deferred.DefaultMaxBytes},
		{1 << 63, deferred.DefaultMaxBytes},
	} {
		if got := overflowBytes(tt.free); got != tt.want {
			t.Errorf("of %d free bytes the overflow may have %d, want %d", tt.free, got, tt.want)
		}
	}
}
