package console

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// The strip of the next minute never becomes one solid bar.
func TestMarksDoNotTouch(t *testing.T) {
	noon := time.Date(2026, 1, 14, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ perSecond, seconds, marks, most int }{
		{0, 0, 0, 0}, {1, 60, 60, 0}, {4, 60, 240, 0}, {5, 60, 60, 5}, {14, 20, 20, 14}, {200, 60, 60, 200},
	} {
		table := wire.Timetable{From: noon, Until: noon.Add(time.Minute)}
		for n := range c.perSecond * c.seconds {
			at := noon.Add(time.Duration(n) * time.Second / time.Duration(c.perSecond))
			table.Departures = append(table.Departures, wire.Departure{At: at, Exact: true})
		}
		marks, most := marksOf(&table)
		if len(marks) != c.marks || most != c.most {
			t.Errorf("%d per second: %d marks of at most %d, want %d of %d", c.perSecond, len(marks), most, c.marks, c.most)
		}
		for n := range marks {
			if m := marks[n]; m.Height <= 0 || m.Height > 1 || n > 0 && marks[n-1].At+marks[n-1].Width >= m.At {
				t.Errorf("%d per second: mark %d is %+v after %+v", c.perSecond, n, m, marks[max(0, n-1)])
			}
		}
	}
}
