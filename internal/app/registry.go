package app

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/ops"
)

// NewRegistry returns a registry with the metrics of the process.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "penstock_build_info", Help: "Always 1; the label version is the version of this program.",
		ConstLabels: prometheus.Labels{"version": ops.Version},
	})
	info.Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

const maxScrapes = 4 // at once

func metricsPage(reg prometheus.Gatherer) http.Handler {
	// Only OpenMetrics has exemplars.
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true})
}

// ownMetrics returns a function that returns the handler of an app's metrics, of its own queues and rules. All apps
// together may scrape maxScrapes at once; scrapes of operators do not count.
func (i *Ingress) ownMetrics() func(app string, sees func(string) bool) http.Handler {
	scrapes := make(chan struct{}, maxScrapes)
	return func(app string, sees func(string) bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case scrapes <- struct{}{}:
				defer func() { <-scrapes }()
			case <-r.Context().Done():
				return
			}
			snapshot, err := i.survey.First(r.Context())
			if err != nil {
				http.Error(w, "queues could not be read: "+err.Error(), http.StatusServiceUnavailable)
				return
			}
			metricsPage(metrics.Own{
				All: i.o.Registry, Rows: snapshot.Rows(), App: app, Sees: sees,
			}).ServeHTTP(w, r)
		})
	}
}
