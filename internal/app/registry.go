package app

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/penstock/penstock/internal/ops"
)

// NewRegistry returns a registry that tells of the process itself.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "penstock_build_info", Help: "1; the label says which version this is.",
		ConstLabels: prometheus.Labels{"version": ops.Version},
	})
	info.Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

func metricsPage(reg *prometheus.Registry) http.Handler {
	// Only OpenMetrics has exemplars.
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}
