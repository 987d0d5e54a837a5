package app

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/tracing"
)

// TraceFlags say what traces tell. The variables OTEL_* say whether there are any.
type TraceFlags struct {
	TraceLanes bool
}

// LongHelp is the help that is too long for the tags.
func (TraceFlags) LongHelp() map[string]string {
	return map[string]string{
		"trace-lanes": "Name the lanes of jobs in traces: they may tell whose jobs these are. Traces are sent where " +
			"OTEL_EXPORTER_OTLP_ENDPOINT says, such as http://127.0.0.1:4318; without it there are none.",
	}
}

// Tracer opens what the environment asks for; nil if it asks for no traces.
func (f *TraceFlags) Tracer(service string, reg prometheus.Registerer, log *slog.Logger) (*tracing.Tracer, error) {
	return tracing.Open(tracing.Options{Service: service, Lanes: f.TraceLanes, Registry: reg, Logger: log})
}
