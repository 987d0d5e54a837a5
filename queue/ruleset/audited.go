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

// Audited returns the audit log entry for takes that give back or clear earlier ones. It returns nil for other takes,
// and for a caller that gives back its own place by its lease. It also returns nil if the context has no Actor: the
// takes are then part of another operation, such as a refused append. Its error is an *invalid.Error.
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

// OfKeys returns the Detail of such an entry.
func OfKeys(n int) string { return fmt.Sprintf("%d of its keys", n) }
