package prove

import (
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/prove/receiver"
)

// Account says what became of every accepted job, by what the receiver saw.
type Account struct {
	Accepted  int `json:"accepted"`
	Delivered int `json:"delivered"` // different jobs that arrived
	// Twice is how many arrivals were of a job that had arrived before.
	Twice int `json:"delivered_twice"`
	// Lost is how many accepted jobs never arrived.
	Lost int `json:"lost"`
	// Strangers is how many arrivals were of no job that was accepted.
	Strangers int `json:"strangers"`
	// LostIDs and StrangerIDs name some of them.
	LostIDs     []string `json:"lost_ids,omitempty"`
	StrangerIDs []string `json:"stranger_ids,omitempty"`
}

// maxNamedIDs is how many ids of each kind are named.
const maxNamedIDs = 10

// Settle compares what was accepted with what arrived.
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
