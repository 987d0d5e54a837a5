package api

import (
	"net/http"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/wire"
)

// curvesWindow is a span of curves.
type curvesWindow struct {
	name string
	span time.Duration
}

var curvesWindows = []curvesWindow{
	{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour},
}

// getCurves answers with what came into queues and what left them: the named queues, or all that the caller may view.
func (h *handler) getCurves(w http.ResponseWriter, r *http.Request) {
	window, wanted, p := readCurves(r)
	if p != nil {
		p.Write(w)
		return
	}
	if _, err := h.o.Survey.First(r.Context()); err != nil {
		h.fail(w, err, "")
		return
	}
	curves := h.o.Survey.Curves(window.span, wanted)
	answer := wire.Curves{
		Instance: h.o.Survey.Instance(), Points: make([]wire.CurvePoint, len(curves.Points)), Marks: []wire.CurveMark{},
	}
	for n, point := range curves.Points {
		answer.Points[n] = wire.CurvePoint{
			At: point.At, Arrived: point.Arrived, Left: point.Left, Refused: point.Refused,
		}
	}
	all := mayView(r.Context()) == nil
	for _, m := range curves.Marks {
		if m.Queue != "" || all { // deployments are the operator's business
			answer.Marks = append(answer.Marks, wire.CurveMark{
				At: m.At.UTC(), Queue: m.Queue, Kind: string(m.Kind), Text: m.Text,
			})
		}
	}
	h.writeJSON(w, r, http.StatusOK, answer)
}

// readCurves reads the window, and which queues to sum up; nil sums up all.
func readCurves(r *http.Request) (window curvesWindow, wanted func(name string) bool, p *httpio.Problem) {
	values := r.URL.Query()
	if p := httpio.Once(values, "window"); p != nil {
		return window, nil, p
	}
	window = curvesWindows[0]
	if name := values.Get("window"); name != "" {
		at := slices.IndexFunc(curvesWindows, func(w curvesWindow) bool { return w.name == name })
		if at < 0 {
			return window, nil, httpio.BadField("window", httpio.Shorten(name)+" must be 15m, 1h, 6h or 24h")
		}
		window = curvesWindows[at]
	}
	seen := mayView(r.Context())
	if !values.Has("queues") {
		return window, seen, nil
	}
	names, p := readNames(r)
	if p != nil {
		return window, nil, p
	}
	return window, func(name string) bool {
		return slices.Contains(names, name) && (seen == nil || seen(name))
	}, nil
}
