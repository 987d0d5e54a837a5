package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/ops"
)

// RegisterTLS registers the metrics of a server's certificates. It ignores nil.
func RegisterTLS(reg prometheus.Registerer, c *ops.Certificates) error {
	if c == nil {
		return nil
	}
	const read, readHelp = "penstock_tls_reads_total", "Reloads of changed certificates: used, or refused (the old ones " +
		"stay in use)."
	count := func(outcome string, value func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: read, Help: readHelp, ConstLabels: prometheus.Labels{"outcome": outcome},
		},
			func() float64 { return float64(value()) })
	}
	return register(reg, count("used", c.Reloaded), count("refused", c.Failed),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_tls_expires_timestamp_seconds", Help: "Time at which the certificate in use expires.",
		},
			func() float64 { return float64(c.Expires().Unix()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_tls_stale",
			Help: "1 while the certificate files are invalid.",
		},
			func() float64 {
				if c.Stale() {
					return 1
				}
				return 0
			}),
	)
}
