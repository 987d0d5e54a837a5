package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// followed is what reads the queues for all who look at them; a survey.Survey is one.
type followed interface {
	Watching() int64
	Dropped() int64
	ReadAt() time.Time
}

// RegisterSurvey registers how the queues are read for all who look at them, and who follows them.
func RegisterSurvey(reg prometheus.Registerer, s followed) error {
	return register(reg,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_event_streams", Help: "How many streams of events are open.",
		}, func() float64 { return float64(s.Watching()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "penstock_event_streams_dropped_total", Help: "Streams of events that were ended because nobody read them.",
		}, func() float64 { return float64(s.Dropped()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_survey_timestamp_seconds",
			Help: "When the queues were last read for the overview, histories and events; 0 if they were not yet.",
		}, func() float64 {
			if at := s.ReadAt(); !at.IsZero() {
				return float64(at.UnixMilli()) / 1000
			}
			return 0
		}),
	)
}
