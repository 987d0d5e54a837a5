package quote

import (
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// Curve returns when the jobs of a queue leave. It assumes that no more jobs are appended, that deliveries succeed,
// that a down receiver answers its next probe, and that limits of jobs in flight let out what they let out lately.
// Errors: an *invalid.Error of ask.Spec.
func Curve(l *queue.Lineup, ask queue.ForecastRequest) (queue.Forecast, error) {
	return machine.Forecast(l, ask)
}

// Sum returns the sum of forecasts of different queues as of now, which may be a little later than their beginnings.
// Its last bend has the cause of the queue with the most jobs that never leave; the others have none.
func Sum(now time.Time, all []*queue.Forecast) queue.Forecast { return machine.Sum(now, all) }
