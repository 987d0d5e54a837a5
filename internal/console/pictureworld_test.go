package console

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
)

// pictured is an API with one queue, whose curves and forecasts are given.
type pictured struct {
	oneQueue
	curves   wire.Curves
	forecast wire.QueueForecast
	tried    wire.QueueForecast // at any rate but "fast"
	none     bool               // the API has no forecast of several queues
}

func (p *pictured) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch rate := strings.TrimPrefix(r.URL.Query().Get("set"), "rate="); {
	case r.URL.Path == "/v1/queues/email/history":
		answer(wire.History{From: pictureNow, Step: 5, HistoryOf: wire.HistoryOf{Values: map[string]wire.Series{}}})
	case r.URL.Path == "/v1/overview":
		row := wire.QueueRow{Name: "email", Capacity: p.queue.Capacity, Rate: p.queue.Rate}
		answer(wire.Overview{
			AsOf: pictureNow, Queues: []wire.QueueRow{row}, Total: 1, Sums: wire.Sums{Capacity: row.Capacity},
		})
	case r.URL.Path == "/v1/history":
		answer(wire.Histories{})
	case r.URL.Path == "/v1/curves":
		answer(p.curves)
	case r.URL.Path == "/v1/queues/email/forecast" && rate == "fast":
		w.WriteHeader(http.StatusBadRequest)
		answer(map[string]any{
			"reason": "invalid_field", "field": "rate", "title": "Invalid request", "detail": `rate: invalid rate "fast"`,
		})
	case r.URL.Path == "/v1/queues/email/forecast" && rate != "":
		answer(p.tried)
	case r.URL.Path == "/v1/queues/email/forecast", r.URL.Path == "/v1/forecast" && !p.none:
		answer(p.forecast)
	case r.URL.Path == "/v1/forecast":
		w.WriteHeader(http.StatusNotFound)
		answer(map[string]any{"reason": "unknown_path", "title": "Not found"})
	default:
		p.oneQueue.ServeHTTP(w, r)
	}
}

// pictureNow is the present of all pictures of tests.
var pictureNow = time.Date(2026, 11, 28, 14, 2, 30, 0, time.UTC)

func minutes(n float64) time.Time { return pictureNow.Add(time.Duration(n * float64(time.Minute))) }

// flows returns curves over a span up to the present: in and out are jobs a second, at the age of x spans.
func flows(span time.Duration, depth int64, in, out func(x float64) float64, capacity int64) (c wire.Curves) {
	const points = 180
	arrived, left, refused := float64(depth), 0.0, 0.0
	for n := range points + 1 {
		x := 1 - float64(n)/points
		if n > 0 {
			each := span.Seconds() / points
			come := in(x) * each
			left += min(out(x)*each, arrived-left+come)
			fit := min(come, float64(capacity)-(arrived-left))
			arrived, refused = arrived+fit, refused+come-fit
		}
		c.Points = append(c.Points, wire.CurvePoint{
			At: pictureNow.Add(-time.Duration(x * float64(span))), Arrived: int64(arrived), Left: int64(left),
			Refused: int64(refused),
		})
	}
	return c
}

func marked(minute float64, kind, text string) wire.CurveMark {
	return wire.CurveMark{At: minutes(minute), Queue: "email", Kind: kind, Text: text}
}

// bendsOf returns a forecast: each row is the minute, the jobs left and the rate from there, and the cause.
func bendsOf(rows ...wire.Bend) wire.QueueForecast {
	f := wire.QueueForecast{Now: pictureNow, Bends: rows}
	if end := rows[len(rows)-1]; end.Remaining == 0 {
		f.FinishAt = &end.At
	}
	return f
}

func bend(minute, left, rate float64, why string) wire.Bend {
	return wire.Bend{At: minutes(minute), Remaining: left, Rate: rate, Why: why}
}

func emptied(b wire.Bend, lane string) wire.Bend { b.Drained = lane; return b }

func until(b wire.Bend, minute float64) wire.Bend { at := minutes(minute); b.Until = &at; return b }

func level(v float64) func(float64) float64 { return func(float64) float64 { return v } }

// pictureScenes are queues whose pictures tests draw.
func pictureScenes() map[string]*pictured {
	scenes := map[string]*pictured{}
	add := func(name string, capacity int64, c wire.Curves, f wire.QueueForecast, tried ...wire.QueueForecast) {
		p := &pictured{curves: c, forecast: f}
		if len(tried) > 0 {
			p.tried = tried[0]
		}
		p.queue = wire.Queue{Flow: &wire.Flow{}}
		p.queue.Name, p.queue.Capacity = "email", capacity
		p.queue.Rate, _ = leaky.ParseRate("14/s")
		scenes[name] = p
	}
	wave := func(x float64) float64 { return 12 + 9*math.Sin(9*x) }
	busy := flows(15*time.Minute, 900, wave, func(x float64) float64 {
		if x > 0.45 && x < 0.6 {
			return 0
		}
		return 14
	}, 5000)
	busy.Marks = []wire.CurveMark{
		{At: minutes(-13.2), Kind: "deployed", Text: "drainer v2.4.1"},
		marked(-9, "paused", "wrong link in the footer"), marked(-6.7, "resumed", ""), marked(-2.1, "changed", "revision 12"),
	}
	depth := func(c wire.Curves) float64 {
		end := c.Points[len(c.Points)-1]
		return float64(end.Arrived - end.Left)
	}
	d := depth(busy)
	add("busy", 50_000, busy, bendsOf(
		bend(0, d, 14, "rate"), emptied(bend(0.4*d/14/60, 0.6*d, 6, "lane_rate"), "gmail.com"),
		emptied(bend(0.4*d/14/60+0.4*d/6/60, 0.2*d, 2, "lane_rate"), "outlook.com"),
		bend(0.4*d/14/60+0.4*d/6/60+0.2*d/2/60, 0, 0, ""),
	), bendsOf(bend(0, d, 28, "rate"), bend(d/28/60, 0, 0, "")))

	full := flows(15*time.Minute, 200, func(x float64) float64 { return 25 - 20*math.Abs(x-0.4) }, level(10), 2000)
	full.Marks = []wire.CurveMark{marked(-12, "stopped", "429 Too Many Requests"), marked(-11.8, "continued", "")}
	d = depth(full)
	add("full", 2000, full, bendsOf(
		bend(0, d, 10, "rate"), until(bend(1.5, d-900, 0, "quota"), 10), bend(10, d-900, 10, "rate"),
		bend(10+(d-900)/600, 0, 0, ""),
	))
	paused := flows(15*time.Minute, 300, level(0.5), func(x float64) float64 {
		if x < 0.5 {
			return 0
		}
		return 1
	}, 10_000)
	paused.Marks = []wire.CurveMark{marked(-7.5, "paused", "wrong link in the footer")}
	add("paused", 10_000, paused, bendsOf(bend(0, depth(paused), 0, "paused")))
	add("waiting", 10_000, paused, bendsOf(
		until(bend(0, depth(paused), 0, "paused"), 20), bend(20, depth(paused), 1, "rate"),
		bend(20+depth(paused)/60, 0, 0, "")))
	add("empty", 10_000, flows(15*time.Minute, 0, level(0), level(1), 10_000), bendsOf(bend(0, 0, 0, "")))
	add("unread", 10_000, wire.Curves{}, bendsOf(bend(0, 80, 1, "rate"), bend(80.0/60, 0, 0, "")))
	huge := flows(15*time.Minute, 100_000_000, level(40_000), level(20_000), 1e12)
	add("huge", 200_000_000, huge, bendsOf(bend(0, depth(huge), 20_000, "rate"), bend(depth(huge)/20_000/60, 0, 0, "")))
	var lanes []wire.Bend
	left := 6000.0
	for n := range 63 {
		b := bend(float64(n)*0.5, left, 30-float64(n)/2.2, "lane_rate")
		left -= b.Rate * 30
		if n > 0 {
			b.Drained = fmt.Sprintf("customer-%03d.example.com", n)
		}
		lanes = append(lanes, b)
	}
	lanes = append(lanes, bend(31.5, 0, 0, ""))
	for n := range lanes[:63] {
		lanes[n].Remaining += -left
	}
	add("lanes", 20_000, flows(15*time.Minute, 9000, level(20), level(22), 20_000), bendsOf(lanes...))
	day := flows(24*time.Hour, 4000, func(x float64) float64 { return 3 + 3*math.Sin(20*x) }, level(3), 100_000)
	for n := range 40 {
		day.Marks = append(day.Marks, marked(-1400+35*float64(n), "changed", fmt.Sprintf("revision %d", n+1)))
	}
	d = depth(day)
	add("day", 100_000, day, bendsOf(bend(0, d, 3, "rate"), until(bend(60, d-10_800, 0, "quota"), 597.5),
		bend(597.5, d-10_800, 3, "rate"), bend(597.5+(d-10_800)/180, 0, 0, "")))
	return scenes
}
