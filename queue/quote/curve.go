package quote

import (
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// Curve returns when the jobs of a queue leave. It assumes that no more jobs are appended, that deliveries succeed,
// that a down receiver answers its next probe, and that limits of jobs in flight let out what they let out lately.
// Errors: an *invalid.Error of ask.Spec.
func Curve(l *queue.Lineup, ask queue.ForecastRequest) (queue.Forecast, error) {
	return machine.Forecast(l, ask)
}
