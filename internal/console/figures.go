package console

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/status"
	"github.com/penstock/penstock/queue/unit"
)

// state is the display form of a queue's status, drawn by {{template "state" .}}.
type state struct {
	Code, Text string
	// Tone is good, warn or bad, or empty if no action is needed.
	Tone   string
	Until  *time.Time
	Reason string // with the actor, if known
	Tags   []tag
}

// tag is a short remark beside a state.
type tag struct{ Text, Tone string }

// tones maps status codes to the color of the state.
var tones = map[status.Code]string{
	status.Flowing: "good", status.Paused: "warn", status.ParentPaused: "warn", status.Throttled: "warn",
	status.Quota: "warn", status.Hours: "warn", status.MaxInFlight: "warn", status.Lanes: "warn", status.NoWorker: "warn",
	status.Held:     "warn",
	status.NoTarget: "bad", status.NoDrainer: "bad", status.CircuitOpen: "bad", status.Stalled: "bad",
}

func stateOf(s *wire.Status) state {
	does := status.Status{Code: s.Code, Queue: s.Queue}
	v := state{
		Code: string(s.Code), Text: does.Text(time.Time{}), Tone: tones[s.Code], Until: s.Until, Reason: s.Reason,
	}
	if s.Full {
		v.Tags = append(v.Tags, tag{"full", "bad"})
	}
	who := s.By
	if who == "" {
		who = s.ClaimedBy
	}
	if who != "" {
		v.Reason = strings.TrimSpace(v.Reason + " (" + who + ")")
	}
	return v
}

// stateOfRow returns the state of a queue in the overview. It looks no calmer than the worst problem of the queue.
func stateOfRow(q *wire.QueueRow) state {
	v := stateOf(&q.Status)
	v.people(q.HeldJobs, q.Dead)
	v.raise(q.Verdict)
	return v
}

// people adds the jobs that wait for a person.
func (v *state) people(held, dead int64) {
	if held > 0 {
		v.Tags = append(v.Tags, tag{num(held) + " to decide", "warn"})
	}
	if dead > 0 {
		v.Tags = append(v.Tags, tag{num(dead) + " dead", "warn"})
	}
}

// raise gives the state at least the tone of a problem.
func (v *state) raise(worst wire.Verdict) {
	switch {
	case worst == wire.Wrong:
		v.Tone = "bad"
	case worst == wire.Warning && v.Tone != "bad":
		v.Tone = "warn"
	}
}

// gauge is a used amount and its maximum, drawn by {{template "gauge" .}}.
type gauge struct {
	Percent float64
	Tone    string
	Used    string
	Of      string
}

func gaugeOf(used, most int64, text func(int64) string) gauge {
	g := gauge{Used: text(used), Of: text(most)}
	if most > 0 {
		g.Percent = min(100, float64(used)*100/float64(most))
	}
	switch {
	case g.Percent >= 100:
		g.Tone = "bad"
	case g.Percent >= 80:
		g.Tone = "warn"
	}
	return g
}

// fillOf returns how full a queue is: by jobs, or by bytes if they leave less room.
func fillOf(q *wire.QueueRow) gauge {
	jobs := gaugeOf(q.Size, q.Capacity, num)
	if bytes := gaugeOf(q.Bytes, q.MaxBytes, bytesOf); bytes.Percent > jobs.Percent && bytes.Percent >= 50 {
		return bytes
	}
	return jobs
}

func bytesOf(n int64) string { return unit.Bytes(n).Short() }

// sparkPoints is the approximate number of points of a sparkline.
const sparkPoints = 60

// spark returns the SVG path of a sparkline, 96 wide and 24 high, for values of at least 0. NaN leaves a gap.
func spark(values wire.Series) string {
	for len(values) > sparkPoints/5 && values[0] != values[0] { // skip leading gaps
		values = values[1:]
	}
	each := max(1, (len(values)+sparkPoints-1)/sparkPoints)
	var points []float32 // the highest value of each group
	var most float32 = 1
	for at := 0; at < len(values); at += each {
		highest := float32(math.NaN())
		for _, v := range values[at:min(at+each, len(values))] {
			if v == v && !(highest >= v) { // also while highest is NaN
				highest = v
			}
		}
		points, most = append(points, highest), max(most, zeroed(highest))
	}
	var path strings.Builder
	pen, drawn := byte('M'), 0
	for i, v := range points {
		if v != v {
			pen = 'M'
			continue
		}
		drawn++
		path.WriteByte(pen)
		path.WriteString(short(float64(i)*96/float64(len(points)-1)) + " " + short(22.5-21*float64(v/most)))
		pen = 'L'
	}
	if drawn < 2 {
		return ""
	}
	return path.String()
}

func short(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// zeroed returns v, or 0 for NaN.
func zeroed(v float32) float32 {
	if v != v {
		return 0
	}
	return v
}
