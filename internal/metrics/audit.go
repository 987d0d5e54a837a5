package metrics

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/queue/audit"
)

// auditDrops counts and logs the entries that the audit log dropped before their time.
type auditDrops struct {
	dropped *prometheus.CounterVec
	seen    map[audit.Budget]int64 // counted so far
}

func newAuditDrops() *auditDrops {
	return &auditDrops{
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_audit_dropped_total",
			Help: "Audit entries dropped before their time because their budget was used up.",
		}, []string{"budget"}),
		seen: map[audit.Budget]int64{},
	}
}

// auditLog is the part of an engine that auditDrops reads.
type auditLog interface {
	audit.Log
	Partitions() int
}

// look counts the entries dropped since the last look.
func (a *auditDrops) look(ctx context.Context, engine auditLog, log *slog.Logger) error {
	all := map[audit.Budget]int64{}
	for p := range engine.Partitions() {
		page, err := engine.Audit(ctx, audit.Request{Partition: p, Back: true, Limit: 1})
		if err != nil {
			return fmt.Errorf("the audit log: %w", err)
		}
		for _, c := range page.Chains {
			all[c.Budget] += c.Dropped
		}
	}
	for budget, n := range all {
		more := max(0, n-a.seen[budget])
		a.dropped.WithLabelValues(string(budget)).Add(float64(more))
		if a.seen[budget] = n; more > 0 {
			log.Warn("the audit log dropped entries before their time: their budget is used up", "budget", budget, "dropped",
				more, "max_bytes", budget.Bytes())
		}
	}
	return nil
}
