package queuecmd

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

func TestSparkline(t *testing.T) {
	none := float32(math.NaN())
	for _, c := range []struct {
		values wire.Series
		want   string
	}{
		{wire.Series{}, strings.Repeat(" ", sparkCells)},
		{make(wire.Series, sparkCells), strings.Repeat("▁", sparkCells)},
		{append(make(wire.Series, sparkCells-3), none, 4, 8), strings.Repeat("▁", sparkCells-3) + " ▄█"},
	} {
		if got := sparkline(c.values); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
	if text := historyText(wire.History{Step: 5}, time.Now()); !strings.HasSuffix(text, "no data yet\n") {
		t.Error(text)
	}
}
