package app

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/app/tracing"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// TraceFlags set the content of traces. The environment variables OTEL_* enable them.
type TraceFlags struct {
	TraceLanes bool
}

// LongHelp implements longHelper.
func (TraceFlags) LongHelp() map[string]string {
	return map[string]string{
		"trace-lanes": "Include the lanes of jobs in traces; they may identify customers. Traces are sent to " +
			"OTEL_EXPORTER_OTLP_ENDPOINT, such as http://127.0.0.1:4318; if that is not set, none are made.",
	}
}

// open returns a tracer as the environment says; nil if it enables no traces.
func (f *TraceFlags) open(service string, reg prometheus.Registerer, log *slog.Logger) (*tracing.Tracer, error) {
	return tracing.Open(tracing.Options{Service: service, Lanes: f.TraceLanes, Registry: reg, Logger: log})
}

// LogFlags enable additional logs.
type LogFlags struct {
	AccessLog bool
	DecisionFlags
}

// LongHelp implements longHelper.
func (LogFlags) LongHelp() map[string]string {
	return map[string]string{
		"access-log": "Log each request to the API with its sender and its answer, never with tokens or payloads.",
	}
}

// DecisionFlags enable the decision log.
type DecisionFlags struct {
	DecisionLog bool
}

// LongHelp implements longHelper.
func (DecisionFlags) LongHelp() map[string]string {
	return map[string]string{
		"decision-log": "Log what keeps jobs from entering or leaving: refusals, deferrals and stops of queues. At most " +
			"one " +
			"line a second per kind, queue and reason, with the number of lines left out.",
	}
}

// Access returns the access log, nil if it is off.
func (f *LogFlags) Access(log *slog.Logger) *slog.Logger {
	if f.AccessLog {
		return log
	}
	return nil
}

// open returns the decision log, nil if it is off.
func (f *DecisionFlags) open(log *slog.Logger) *ops.Decisions {
	if f.DecisionLog {
		return ops.NewDecisions(log)
	}
	return nil
}

// drainDecisions is an observer that writes stops of queues to the decision log.
type drainDecisions struct {
	drain.Observer
	log *ops.Decisions
}

// Affected implements drain.Observer.
func (o drainDecisions) Affected(s queue.Settlement, e queue.Effect) {
	o.Observer.Affected(s, e)
	what := "stopped"
	switch {
	case e.Opened:
		what = "circuit_opened"
	case e.Stopped <= 0:
		return
	case s.LaneOnly:
		what = "lane_stopped"
	}
	o.log.Note(what, s.Queue, s.Verdict.String(), func() []slog.Attr {
		return []slog.Attr{slog.String("job", s.ID), slog.Duration("wait", e.Stopped)}
	})
}
