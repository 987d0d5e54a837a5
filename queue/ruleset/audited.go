package ruleset

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

// Audited is the entry of the audit log for questions to a rule: that what was taken is given back, or forgotten. It is
// nil of takes, of whoever gives back a place of his own by its lease, and where the context has no Actor: then it is a
// part of something else, such as of an append that was refused. Its error is an *invalid.Error.
func Audited(ctx context.Context, rule string, takes []rules.Take) (*audit.Entry, error) {
	if !audit.HasActor(ctx) {
		return nil, nil
	}
	what := changekind.Refunded
	at := slices.IndexFunc(takes, func(t rules.Take) bool {
		return t.Op == rules.TakeAnew || t.Op == rules.TakeBack && t.Lease == ""
	})
	if at < 0 {
		return nil, nil
	}
	if takes[at].Op == rules.TakeAnew {
		what = changekind.Reset
	}
	actor, err := audit.ActorOf(ctx)
	return &audit.Entry{Actor: actor, Of: string(queue.OfRule), Name: rule, What: what}, err
}

// OfKeys is the Detail of such an entry.
func OfKeys(n int) string { return fmt.Sprintf("%d of its keys", n) }
