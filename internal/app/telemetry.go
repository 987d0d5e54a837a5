package app

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/app/tracing"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
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

// LogFlags say what is logged besides what an operator has to know.
type LogFlags struct {
	AccessLog bool
	DecisionFlags
}

// LongHelp is the help that is too long for the tags.
func (LogFlags) LongHelp() map[string]string {
	return map[string]string{
		"access-log": "Log each request to the API: what was asked, by whom, and how it was answered. Never tokens and " +
			"payloads.",
	}
}

// DecisionFlags say whether decisions are logged.
type DecisionFlags struct {
	DecisionLog bool
}

// LongHelp is the help that is too long for the tags.
func (DecisionFlags) LongHelp() map[string]string {
	return map[string]string{
		"decision-log": "Log what keeps jobs from leaving or coming in: refusals, deferrals and stops of queues, of each " +
			"kind, queue and reason one a second, and how many it leaves out.",
	}
}

// Access is where requests are logged; nil if they are not.
func (f *LogFlags) Access(log *slog.Logger) *slog.Logger {
	if f.AccessLog {
		return log
	}
	return nil
}

// Decisions is who is told of decisions; nil if nobody is.
func (f *DecisionFlags) Decisions(log *slog.Logger) *ops.Decisions {
	if f.DecisionLog {
		return ops.NewDecisions(log)
	}
	return nil
}

// drainDecisions tells the decision log of queues that stop, and passes everything on to another observer.
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
