// Package changelog defines what every engine keeps of changes to queues and rules, and for how long.
package changelog

import (
	"github.com/go-json-experiment/json"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

const (
	// MaxSpecs is how many specs are kept per queue name, and how many rules per rule name, for rollbacks. No other
	// change pushes them out. They outlive the queue as its change log does.
	MaxSpecs = 50
	// MaxBytes bounds the changes of a name, approximately: the oldest go first, and the newest counts how many went.
	MaxBytes = 1 << 20
	// MaxDeletedNames is the number of deleted queues and rules per partition whose changes are kept. The earliest
	// deletions go first.
	MaxDeletedNames = 10_000
)

const (
	// LapseReason is the reason of an automatic resume.
	LapseReason = "the pause's time came"
	// StopLifted is the detail of a resume that ended a stop by the receiver.
	StopLifted = "the stop by its receiver ended"
)

// ArchiveDetail returns the detail of an import: its file's mark.
func ArchiveDetail(mark string) string { return "archive " + mark }

// JoinRules fills in RuleBefore and RuleAfter of changes, by revision, as queue.History.Join does for specs.
func JoinRules(list []queue.Change, byRevision map[int64]*rules.Rule) {
	for i := range list {
		if c := &list[i]; c.What.OfSpecs() {
			c.RuleBefore = byRevision[c.Was]
			if c.What != changekind.Deleted {
				c.RuleAfter = byRevision[c.Revision]
			}
		}
	}
}

// EncodeKeptRule encodes a rule for the change log. It leaves out the overrides, which could be rules.MaxOverrides in
// each version.
func EncodeKeptRule(r rules.Rule) ([]byte, error) {
	r.Overrides = nil
	return rules.Encode(r)
}

// EncodeAuditedRule encodes a rule for the audit log. It replaces the overrides by their number and the digest of
// their canonical JSON, so that no change of them goes unnoticed.
func EncodeAuditedRule(r rules.Rule) ([]byte, error) {
	if len(r.Overrides) == 0 {
		return EncodeKeptRule(r)
	}
	overrides, err := json.Marshal(r.Overrides, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	type sum struct {
		Count  int          `json:"count"`
		Digest audit.Digest `json:"digest"`
	}
	return json.Marshal(struct {
		rules.Rule
		Overrides sum `json:"overrides"` // in place of those of Rule
	}{r, sum{len(r.Overrides), audit.DigestOf(overrides)}})
}
