package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/auth"
)

// RegisterAuth registers metrics of authentication, and of the known apps, tokens and subjects. It ignores nil.
func RegisterAuth(reg prometheus.Registerer, a *auth.Authority) error {
	if a == nil {
		return nil
	}
	collectors := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_auth_documents", Help: "Number of known apps, tokens and subjects.",
		},
			func() float64 { return float64(a.Known()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_auth_age_seconds",
			Help: "Time since changes to apps, tokens and subjects were last read from the store.",
		},
			func() float64 { return a.Age().Seconds() }),
	}
	for _, outcome := range auth.Outcomes() {
		collectors = append(collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "penstock_auth_requests_total",
			Help:        "Requests by result of authentication: accepted, or the reason for refusal.",
			ConstLabels: prometheus.Labels{"outcome": string(outcome)},
		},
			func() float64 { return float64(a.Requests(outcome)) }))
	}
	return register(reg, collectors...)
}
