package wire

import "time"

// Top is by which keys a rule is asked most, as far as one ingress asks it: in takes, and for jobs that are appended.
type Top struct {
	// By is the template of the keys of jobs.
	By    string     `json:"by"`
	Since *time.Time `json:"since,omitempty"` // nil if nothing was counted
	Until *time.Time `json:"until,omitempty"` // nil is now
	// Asked are all, and Refused those that were not allowed, or would not have been.
	Asked   KeyCounts `json:"asked"`
	Refused KeyCounts `json:"refused"`
	// Uncounted means that the ingress counts the keys of as many other rules as it can.
	Uncounted bool `json:"uncounted,omitempty"`
}

// KeyCounts are the keys that came most often among so many.
type KeyCounts struct {
	Count int64      `json:"count"`
	Keys  []KeyCount `json:"keys"`
}

// KeyCount is how often a key came: at most Count times, at least Count - Error times.
type KeyCount struct {
	Key   string `json:"key"`
	Count int64  `json:"count"`
	Error int64  `json:"error"`
}
