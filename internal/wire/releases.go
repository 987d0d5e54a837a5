package wire

import (
	"fmt"
	"math"

	"github.com/penstock/penstock/queue"
)

// Releases counts the released departures of one queue.
type Releases struct {
	queue.Releases
	// Window is the time span, as in 15m. Empty means since the queue was created.
	Window string `json:"window,omitempty"`
}

// Text describes the releases: how many of how many departures, and when.
func (r Releases) Text() string {
	when := "since it was created"
	if r.Window != "" {
		when = "in the last " + r.Window
	}
	return fmt.Sprintf("%d of %d departures %s (%s)", r.Released, r.Departures, when, r.Percent())
}

// ReleasesIn counts the releases in the columns released and outflow of a history, with a step in seconds. It reports
// false if none of the values is known. The outflow does not include released departures.
func ReleasesIn(h HistoryOf, step float64, window string) (r Releases, known bool) {
	var back, out float64
	outflow := h.Values["outflow"]
	for n, v := range h.Values["released"] {
		if v != v || n >= len(outflow) || outflow[n] != outflow[n] {
			continue // unknown
		}
		known = true
		back += float64(v) * step
		out += float64(outflow[n]) * step
	}
	released := int64(math.Round(back))
	return Releases{queue.Releases{Released: released, Departures: released + int64(math.Round(out))}, window}, known
}
