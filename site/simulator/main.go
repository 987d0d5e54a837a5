//go:build js && wasm

// Command simulator is the simulator on the documentation site, for WebAssembly. It offers one function to the page,
// penstockSimulate.
package main

import (
	"syscall/js"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/site/simulator/simulate"
)

// The windows of the curve.
const (
	curveStep    = 50 * time.Millisecond
	curveLongest = 5 * time.Second
)

func main() {
	js.Global().Set("penstockSimulate", js.FuncOf(run))
	select {} // the function is called from outside
}

// run simulates the settings in its first argument. Times are in milliseconds.
func run(_ js.Value, args []js.Value) any {
	in := args[0]
	settings := simulate.Settings{
		Rate:     int64(in.Get("rate").Int()),
		Burst:    int64(in.Get("burst").Int()),
		Capacity: int64(in.Get("capacity").Int()),
		Arrivals: int64(in.Get("arrivals").Int()),
		Pattern:  simulate.Pattern(in.Get("pattern").String()),
		Slack:    time.Duration(in.Get("slack").Int()) * time.Millisecond,
		Seed:     uint64(in.Get("seed").Int()),
	}
	jobs, err := simulate.Run(settings)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	window := leaky.Instant(in.Get("window").Int()) * 1000
	starts, law := simulate.Starts(jobs), settings.Law()
	most := simulate.Most(starts, window)
	curve := []any{}
	for _, w := range simulate.Curve(starts, curveStep, curveLongest) {
		curve = append(curve, []any{ms(w.Length), w.Starts, law.Allows(w.Length)})
	}
	return map[string]any{
		"span":     simulate.Span.Milliseconds(),
		"accepted": times(jobs, func(job simulate.Job) (leaky.Instant, bool) { return job.Arrived, !job.Refused }),
		"refused":  times(jobs, func(job simulate.Job) (leaky.Instant, bool) { return job.Arrived, job.Refused }),
		"starts":   times(jobs, func(job simulate.Job) (leaky.Instant, bool) { return job.Start, job.Started }),
		"curve":    curve,
		"most":     map[string]any{"from": ms(most.From), "starts": most.Starts, "allowed": law.Allows(window)},
		"spare":    law.Spare(starts),
	}
}

// times returns the instants that pick picks.
func times(jobs []simulate.Job, pick func(simulate.Job) (leaky.Instant, bool)) []any {
	picked := []any{}
	for _, job := range jobs {
		if at, ok := pick(job); ok {
			picked = append(picked, ms(at))
		}
	}
	return picked
}

func ms(t leaky.Instant) float64 { return float64(t) / 1000 }
