package wire

import "time"

// Top are the most frequent keys of a rule, as counted by one ingress: in takes, and for jobs that are appended.
type Top struct {
	// By is the template of the keys of jobs.
	By    string     `json:"by"`
	Since *time.Time `json:"since,omitempty"` // nil if nothing was counted
	Until *time.Time `json:"until,omitempty"` // nil means now
	// Asked counts all decisions, Refused the refusals. A rule that only counts is included with what it would have
	// refused.
	Asked   KeyCounts `json:"asked"`
	Refused KeyCounts `json:"refused"`
	// Uncounted means that the ingress counts too many other rules already.
	Uncounted bool `json:"uncounted,omitempty"`
}

// KeyCounts are the most frequent keys, and the total count.
type KeyCounts struct {
	Count int64      `json:"count"`
	Keys  []KeyCount `json:"keys"`
}

// KeyCount is how often a key occurred: at most Count, at least Count - Error times.
type KeyCount struct {
	Key   string `json:"key"`
	Count int64  `json:"count"`
	Error int64  `json:"error"`
}
