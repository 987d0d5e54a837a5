package prove

import (
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/prove/receiver"
)

// Account compares the accepted jobs with the arrivals at the receiver.
type Account struct {
	Accepted  int `json:"accepted"`
	Delivered int `json:"delivered"` // different jobs that arrived
	// Twice is the number of arrivals of jobs that had arrived before.
	Twice int `json:"delivered_twice"`
	// Lost is the number of accepted jobs that never arrived.
	Lost int `json:"lost"`
	// Strangers is the number of arrivals of jobs that were never accepted.
	Strangers int `json:"strangers"`
	// LostIDs and StrangerIDs have some of their ids.
	LostIDs     []string `json:"lost_ids,omitempty"`
	StrangerIDs []string `json:"stranger_ids,omitempty"`
}

// maxNamedIDs is the maximum number of ids in each list.
const maxNamedIDs = 10

// Settle compares the accepted jobs with the arrivals.
func Settle(accepted []string, arrivals []receiver.Arrival) Account {
	times := make(map[string]int, len(accepted))
	for _, id := range accepted {
		times[id] = 0
	}
	a := Account{Accepted: len(times)}
	strangers := map[string]bool{}
	for _, arrival := range arrivals {
		n, ok := times[arrival.ID]
		switch {
		case !ok:
			a.Strangers++
			strangers[arrival.ID] = true
			continue
		case n == 0:
			a.Delivered++
		default:
			a.Twice++
		}
		times[arrival.ID] = n + 1
	}
	lost := map[string]bool{}
	for id, n := range times {
		if n == 0 {
			lost[id] = true
		}
	}
	a.Lost = len(lost)
	a.LostIDs, a.StrangerIDs = firstIDs(lost), firstIDs(strangers)
	return a
}

func firstIDs(ids map[string]bool) []string {
	sorted := slices.Sorted(maps.Keys(ids))
	return sorted[:min(len(sorted), maxNamedIDs)]
}
