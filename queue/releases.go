package queue

import "fmt"

const (
	// EnoughDepartures is the number of departures below which a share of them says nothing.
	EnoughDepartures = 20
	// fewReleases is the number of releases that a quiet queue or process may have without being reported.
	fewReleases = 5
)

// Releases counts the departures that were given back unused.
type Releases struct {
	Released   int64 `json:"released"`
	Departures int64 `json:"departures"` // all that were granted, the released ones included
}

// Many reports whether more than 1% of the departures were released. Small numbers are not reported: see
// EnoughDepartures and fewReleases.
func (r Releases) Many() bool {
	return r.Departures >= EnoughDepartures && r.Released >= fewReleases && 100*r.Released > r.Departures
}

// Percent returns the share of departures that were released, as text.
func (r Releases) Percent() string {
	return fmt.Sprintf("%.1f%%", 100*float64(r.Released)/float64(max(1, r.Departures)))
}
