package wire

import (
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// Rule is a rule as it stands.
type Rule struct {
	rules.Rule
	Revision int64 `json:"revision"`
	// Queues of its group that ask it. Absent also in the answer to a PUT whose rule could not be
	// read after the change was made.
	Queues []string `json:"queues,omitempty"`
	// Keys is absent where Queues is.
	Keys *RuleKeys `json:"keys,omitempty"`
}

// RuleKeys is about how many keys a rule holds, beside those with overrides, and how many it may.
type RuleKeys struct {
	Held int64 `json:"held"`
	Max  int64 `json:"max"`
}

// Rules is a page of the list of rules.
type Rules struct {
	Rules []Rule `json:"rules"`
	// Next is what to give as after for the next page; absent on the last one.
	Next string `json:"next,omitempty"`
}

// Take is one question to a rule.
type Take struct {
	Key   string `json:"key,omitempty"`
	Cost  int64  `json:"cost,omitempty"` // 0 means 1
	Lease string `json:"lease,omitempty"`
	// Receipt, of a refund, is that of the take; then a Cost of 0 means all of it.
	Receipt string `json:"receipt,omitempty"`
	// Wait, of a single take, is how long to wait for it.
	Wait unit.Duration `json:"wait,omitzero"`
}

// Takes are many.
type Takes struct {
	Takes []Take `json:"takes"`
}

// Taken is the answer to one question.
type Taken struct {
	// Status, of lists, is what it would have been of the question alone: 200, 429 or 400.
	Status int `json:"status,omitempty"`
	// Allowed says that it may go on: the rule allows it, or only counts.
	Allowed bool `json:"allowed"`
	// Shadowed says that the rule would have refused it if it did more than count.
	Shadowed     bool  `json:"shadowed,omitempty"`
	Limit        int64 `json:"limit"`
	Remaining    int64 `json:"remaining"`
	RetryAfterMS int64 `json:"retry_after_ms"`
	ResetAfterMS int64 `json:"reset_after_ms"`
	// Away is the rule's policy if that decided, because the store could not be asked.
	Away  string `json:"away,omitempty"`
	Lease string `json:"lease,omitempty"`
	// Receipt is what the caller gives the take back with, if it may not refund what others took.
	Receipt string `json:"receipt,omitempty"`
	// MaxKeys is how many keys the rule may hold, if it refuses only because it holds so many.
	MaxKeys int64 `json:"max_keys,omitempty"`

	// Why a question of a list could not be asked.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	Field  string `json:"field,omitempty"`
}

// AllTaken answers Takes, in their order.
type AllTaken struct {
	Takes []Taken `json:"takes"`
}
