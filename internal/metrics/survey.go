package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// followed is the part of a survey.Survey with metrics.
type followed interface {
	Watching() int64
	Dropped() int64
	ReadAt() time.Time
	KeepFailures() int64
}

// RegisterSurvey registers the metrics of a survey and of its event streams.
func RegisterSurvey(reg prometheus.Registerer, s followed) error {
	return register(reg,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_event_streams", Help: "Number of open event streams.",
		}, func() float64 { return float64(s.Watching()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "penstock_event_streams_dropped_total", Help: "Event streams ended because their client did not read them.",
		}, func() float64 { return float64(s.Dropped()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_survey_timestamp_seconds",
			Help: "Time at which the queues were last read for the overview, histories and events; 0 before the first read.",
		}, func() float64 {
			if at := s.ReadAt(); !at.IsZero() {
				return float64(at.UnixMilli()) / 1000
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "penstock_survey_keep_failures_total",
			Help: "Samples of the history that could not be stored or read. Without them, a restart leaves a gap in the charts.",
		}, func() float64 { return float64(s.KeepFailures()) }),
	)
}
