package wire

import (
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// Rule is a rule and its revision.
type Rule struct {
	rules.Rule
	Revision int64 `json:"revision"`
	// Queues are the queues of the rule's group that use it. It is absent if there are none, or if the rule could not be
	// read after a PUT.
	Queues []string `json:"queues,omitempty"`
	// Keys is absent where Queues is.
	Keys *RuleKeys `json:"keys,omitempty"`
}

// RuleKeys is the approximate number of keys that a rule holds, without keys that have overrides, and the limit of that
// number.
type RuleKeys struct {
	Held int64 `json:"held"`
	Max  int64 `json:"max"`
}

// Rules is a page of rules.
type Rules struct {
	Rules []Rule `json:"rules"`
	// Next is the after of the next page; absent on the last.
	Next string `json:"next,omitempty"`
}

// Take is a take, peek, refund or reset of a rule.
type Take struct {
	Key  string `json:"key,omitempty"`
	Cost int64  `json:"cost,omitempty"` // 0 means 1
	// Costs is the cost for a rule with a unit.
	Costs map[string]int64 `json:"costs,omitempty"`
	// Take is the take to correct, and Actual what it cost.
	Take   string           `json:"take,omitempty"`
	Actual map[string]int64 `json:"actual,omitempty"`
	Lease  string           `json:"lease,omitempty"`
	// Receipt of the take to refund. A Cost of 0 then means all of it.
	Receipt string `json:"receipt,omitempty"`
	// Wait is how long a single take waits.
	Wait unit.Duration `json:"wait,omitzero"`
}

// Takes is a list of takes.
type Takes struct {
	Takes []Take `json:"takes"`
}

// Taken is the answer to a Take.
type Taken struct {
	// Status is set in lists: the status of the same take alone, 200, 429 or 400.
	Status int `json:"status,omitempty"`
	// Allowed means that the caller may proceed: the rule allows it, or only counts.
	Allowed bool `json:"allowed"`
	// Shadowed means that the rule only counts and would have refused.
	Shadowed     bool  `json:"shadowed,omitempty"`
	Limit        int64 `json:"limit"`
	Remaining    int64 `json:"remaining"`
	RetryAfterMS int64 `json:"retry_after_ms"`
	ResetAfterMS int64 `json:"reset_after_ms"`
	// Away is the rule's policy for an unreachable store, if that decided.
	Away  string `json:"away,omitempty"`
	Lease string `json:"lease,omitempty"`
	// Take identifies the take for a correction.
	Take string `json:"take,omitempty"`
	// Receipt refunds the take, for callers who may not refund other callers' takes.
	Receipt string `json:"receipt,omitempty"`
	// MaxKeys is the limit of keys, if the rule refused only because of it.
	MaxKeys int64 `json:"max_keys,omitempty"`

	// Why an item of a list was not executed.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	Field  string `json:"field,omitempty"`
}

// AllTaken answers Takes, in the same order.
type AllTaken struct {
	Takes []Taken `json:"takes"`
}
