package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/auth"
)

// RegisterAuth registers who was let in and who was not, and how much is known of apps and tokens; nil registers
// nothing.
func RegisterAuth(reg prometheus.Registerer, a *auth.Authority) error {
	if a == nil {
		return nil
	}
	collectors := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_auth_documents", Help: "How many apps, tokens and subjects are known.",
		},
			func() float64 { return float64(a.Known()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_auth_age_seconds",
			Help: "How long ago the store last told what has changed of apps, tokens and subjects.",
		},
			func() float64 { return a.Age().Seconds() }),
	}
	for _, outcome := range auth.Outcomes() {
		collectors = append(collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "penstock_auth_requests_total",
			Help:        "Requests by whether it is known who sends them: accepted, or why they were refused.",
			ConstLabels: prometheus.Labels{"outcome": string(outcome)},
		},
			func() float64 { return float64(a.Requests(outcome)) }))
	}
	return register(reg, collectors...)
}
