package wire

// Store is the store as a whole.
type Store struct {
	Queues int64 `json:"queues"`
	// Used is the number of bytes in use. At Stop no more jobs are accepted; 0 means no limit.
	Used int64 `json:"used"`
	Stop int64 `json:"stop,omitempty"`
	// Data is the number of bytes of the store's own data if Used is about the whole disk or process.
	Data int64 `json:"data,omitempty"`
	// Deferred is the number of jobs on the overflow. Overflow is its state: ok, off, unavailable or stuck.
	Deferred       int64  `json:"deferred"`
	Overflow       string `json:"overflow"`
	OverflowDetail string `json:"overflow_detail,omitempty"`
	// EgressAllow lists the addresses that targets may have besides public ones. It is the --egress-allow of the server
	// that answers. Only callers with the role configure get it.
	EgressAllow []string `json:"egress_allow,omitempty"`
	Drainers
}
