package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/ops"
)

// RegisterMemory registers the memory that a process uses for its clients, the limit, and refusals because of it.
func RegisterMemory(reg prometheus.Registerer, b *ops.Budget) error {
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) },
		)
	}
	refused := func(why string, value func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "penstock_memory_refused_total",
			Help: "Connections, requests and lines refused for lack of memory: over_share, the client's share is used up; " +
				"overloaded, all memory is.",
			ConstLabels: prometheus.Labels{"reason": why},
		}, func() float64 { return float64(value()) })
	}
	return register(reg,
		gauge("penstock_memory_used_bytes", "Memory charged for connections, requests and streams.", b.Used),
		gauge("penstock_memory_limit_bytes", "Maximum of penstock_memory_used_bytes.", b.Limit),
		refused("over_share", b.RefusedShare), refused("overloaded", b.RefusedAll),
	)
}
