// Package changelog has what every engine keeps of changes to queues and rules, and how much.
package changelog

import (
	"github.com/go-json-experiment/json"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

const (
	// MaxSpecs is how many specs of a queue's name are kept to be put again, and how many rules. Nothing else that is
	// done to it pushes them out. They outlive it as its record does.
	MaxSpecs = 50
	// MaxBytes is about what the changes of a name may take: the oldest go first, and the newest entry counts them.
	MaxBytes = 1 << 20
	// MaxDeletedNames is of how many deleted queues and rules something is kept, in a partition; those deleted first
	// go first.
	MaxDeletedNames = 10_000
)

const (
	// LapseReason is why a queue was resumed by itself.
	LapseReason = "the pause's time came"
	// StopLifted is the detail of a resume that ended what the receiver had put the queue off by.
	StopLifted = "the stop by its receiver ended"
)

// ArchiveDetail names the file of an import by its mark.
func ArchiveDetail(mark string) string { return "archive " + mark }

// JoinRules puts to changes of a rule what was there before and after each, by revision, as queue.History.Join does.
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

// EncodeKeptRule is rules.Encode of what the change log keeps of a rule: all but its overrides, which are up to
// rules.MaxOverrides in each of its versions.
func EncodeKeptRule(r rules.Rule) ([]byte, error) {
	r.Overrides = nil
	return rules.Encode(r)
}

// EncodeAuditedRule is what the audit log has of a rule: rules.Encode, but of overrides only how many there are
// and the digest of them, as JSON without spaces whose keys are sorted. So no change of them goes unseen.
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
