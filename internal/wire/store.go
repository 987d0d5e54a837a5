package wire

// Store is the store as a whole.
type Store struct {
	Queues int64 `json:"queues"`
	// Used is how many bytes are taken. At Stop nothing comes in any more; it is 0 if nothing bounds the store.
	Used int64 `json:"used"`
	Stop int64 `json:"stop,omitempty"`
	// Deferred is how many jobs are on the overflow, and Overflow how that does: ok, off, unavailable or stuck.
	Deferred       int64  `json:"deferred"`
	Overflow       string `json:"overflow"`
	OverflowDetail string `json:"overflow_detail,omitempty"`
	// EgressAllow is where targets may be besides at public addresses, by the --egress-allow of the server that answers.
	// Only whoever may configure is told.
	EgressAllow []string `json:"egress_allow,omitempty"`
	Drainers
}
