package ruleset

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/changekind"
)

// Audited is the entry of the audit log for questions to a rule: that what was taken is given back, or forgotten. It is
// nil of takes, of whoever gives back a place of his own by its lease, and where the context has no Actor: then it is a
// part of something else, such as of an append that was refused. Its error is a *queue.FieldError.
func Audited(ctx context.Context, rule string, takes []queue.Take) (*queue.AuditEntry, error) {
	if !queue.HasActor(ctx) {
		return nil, nil
	}
	what := changekind.Refunded
	at := slices.IndexFunc(takes, func(t queue.Take) bool {
		return t.Op == queue.TakeAnew || t.Op == queue.TakeBack && t.Lease == ""
	})
	if at < 0 {
		return nil, nil
	}
	if takes[at].Op == queue.TakeAnew {
		what = changekind.Reset
	}
	actor, err := queue.ActorOf(ctx)
	return &queue.AuditEntry{Actor: actor, Of: string(queue.OfRule), Name: rule, What: what}, err
}

// OfKeys is the Detail of such an entry.
func OfKeys(n int) string { return fmt.Sprintf("%d of its keys", n) }
