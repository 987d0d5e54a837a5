package queue_test

import (
	"testing"

	"github.com/penstock/penstock/queue"
)

// More than 1% is reported, but a handful on a quiet queue is not.
func TestManyReleases(t *testing.T) {
	for _, c := range []struct {
		released, departures int64
		many                 bool
		percent              string
	}{
		{0, 0, false, "0.0%"},
		{0, 1_000_000, false, "0.0%"},
		{4, 4, false, "100.0%"},
		{4, 100, false, "4.0%"},
		{19, 19, false, "100.0%"},
		{5, 20, true, "25.0%"},
		{5, 500, false, "1.0%"},
		{6, 500, true, "1.2%"},
		{100, 10_000, false, "1.0%"},
		{186_589, 186_589, true, "100.0%"},
	} {
		r := queue.Releases{Released: c.released, Departures: c.departures}
		if r.Many() != c.many || r.Percent() != c.percent {
			t.Errorf("%+v: many %v, %s; want %v, %s", r, r.Many(), r.Percent(), c.many, c.percent)
		}
	}
}
