package queue

import "fmt"

const (
	// EnoughDepartures is the number of departures below which their released fraction means nothing.
	EnoughDepartures = 20
	// fewReleases is the number of releases that a quiet queue or process may have without being reported.
	fewReleases = 5
)

// Releases counts departures that were given back unused.
type Releases struct {
	Released   int64 `json:"released"`
	Departures int64 `json:"departures"` // all granted departures, released ones included
}

// Many reports whether more than 1% of the departures were released. It ignores small numbers: see EnoughDepartures
// and fewReleases.
func (r Releases) Many() bool {
	return r.Departures >= EnoughDepartures && r.Released >= fewReleases && 100*r.Released > r.Departures
}

// Percent returns the released percentage of the departures, as text.
func (r Releases) Percent() string {
	return fmt.Sprintf("%.1f%%", 100*float64(r.Released)/float64(max(1, r.Departures)))
}
