package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/ops"
)

// RegisterMemory registers what a process holds for its clients, of how much, and what it refused for that.
func RegisterMemory(reg prometheus.Registerer, b *ops.Budget) error {
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) },
		)
	}
	refused := func(why string, value func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "penstock_memory_refused_total",
			Help: "Connections, requests and lines that were refused because of the memory they would take: " +
				"over_share, their client's; overloaded, all.",
			ConstLabels: prometheus.Labels{"reason": why},
		}, func() float64 { return float64(value()) })
	}
	return register(reg,
		gauge("penstock_memory_used_bytes", "What connections, requests and streams are charged for.", b.Used),
		gauge("penstock_memory_limit_bytes", "How much that may be.", b.Limit),
		refused("over_share", b.RefusedShare), refused("overloaded", b.RefusedAll),
	)
}
