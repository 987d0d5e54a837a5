package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
)

// maxHistories is the maximum number of queues in one request.
const maxHistories = 200

// getHistory answers with the history of a queue.
func (h *handler) getHistory(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	ask, p := readHistory(r)
	if p != nil {
		p.Write(w)
		return
	}
	snapshot, err := h.o.Survey.First(r.Context())
	if err == nil && snapshot.Row(name) == nil { // it may be newer than the survey
		_, err = h.engine.Get(r.Context(), name)
	}
	if err != nil {
		h.fail(w, err, name)
		return
	}
	all := h.histories(&ask, []string{name})
	h.writeJSON(w, r, http.StatusOK, wire.History{
		From: all.From, Step: all.Step, Instance: all.Instance, HistoryOf: all.Queues[name],
	})
}

// listHistories answers with the histories of several queues. Unknown queues are left out.
func (h *handler) listHistories(w http.ResponseWriter, r *http.Request) {
	ask, p := readHistory(r)
	names, p2 := readNames(r)
	if p == nil {
		p = p2
	}
	if p != nil {
		p.Write(w)
		return
	}
	snapshot := h.snapshot(w, r)
	if snapshot == nil {
		return
	}
	seen := mayView(r.Context())
	names = slices.DeleteFunc(names, func(name string) bool {
		return snapshot.Row(name) == nil || seen != nil && !seen(name)
	})
	h.writeJSON(w, r, http.StatusOK, h.histories(&ask, names))
}

func (h *handler) histories(ask *historyQuery, names []string) wire.Histories {
	all := wire.Histories{Instance: h.o.Survey.Instance(), Queues: make(map[string]wire.HistoryOf, len(names))}
	frame := h.o.Survey.History("", ask.window)
	all.From, all.Step = frame.From, frame.Step.Seconds()
	for _, name := range names {
		one := h.o.Survey.History(name, ask.window)
		if !one.From.Equal(frame.From) { // a new reading came between
			return h.histories(ask, names)
		}
		of := wire.HistoryOf{Since: instant(one.Since), Values: map[string]wire.Series{}}
		for n, column := range survey.Columns {
			if len(ask.columns) == 0 || slices.Contains(ask.columns, column.Name) {
				of.Values[column.Name] = one.Values[n]
			}
		}
		all.Queues[name] = of
	}
	return all
}

// historyQuery selects a part of a history.
type historyQuery struct {
	window  survey.Window
	columns []string // empty: all
}

func readHistory(r *http.Request) (q historyQuery, p *httpio.Problem) {
	values := r.URL.Query()
	if p := httpio.Once(values, "window", "columns"); p != nil {
		return q, p
	}
	switch window := values.Get("window"); window {
	case "", "15m":
		q.window = survey.Fine
	case "24h":
		q.window = survey.Coarse
	default:
		return q, httpio.BadField("window", httpio.Shorten(window)+" must be 15m or 24h")
	}
	if columns := values.Get("columns"); columns != "" {
		q.columns = strings.Split(columns, ",")
		known := survey.ColumnNames()
		for _, name := range q.columns {
			if !slices.Contains(known, name) {
				return q, httpio.BadField("columns", httpio.Shorten(name)+" must be one of "+strings.Join(known, ", "))
			}
		}
	}
	return q, nil
}

// readNames reads the parameter queues.
func readNames(r *http.Request) ([]string, *httpio.Problem) {
	const field = "queues"
	values := r.URL.Query()[field]
	switch {
	case len(values) > 1:
		return nil, httpio.Duplicate(field)
	case len(values) == 0 || values[0] == "":
		return nil, httpio.BadField(field, "must be names of queues, separated by commas")
	}
	names := strings.Split(values[0], ",")
	if len(names) > maxHistories {
		return nil, httpio.BadField(field, "names "+strconv.Itoa(len(names))+" queues, at most "+strconv.Itoa(maxHistories))
	}
	return names, nil
}

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
	age, all := httpio.MaxAge(r), mayView(r.Context()) == nil
	if !all {
		age = 0 // curves of those queues that this caller may view
	}
	key := curvesKey{window.span, r.URL.Query().Get("queues"), r.URL.Query().Get("name")}
	curves, err := h.caches.curves.Get(r.Context(), key, age, func(context.Context) (survey.Curves, error) {
		return h.o.Survey.Curves(window.span, wanted), nil
	})
	if err != nil {
		h.fail(w, err, "")
		return
	}
	answer := wire.Curves{
		Instance: h.o.Survey.Instance(), Points: make([]wire.CurvePoint, len(curves.Points)), Marks: []wire.CurveMark{},
	}
	for n, point := range curves.Points {
		answer.Points[n] = wire.CurvePoint{
			At: point.At, Arrived: point.Arrived, Left: point.Left, Refused: point.Refused,
		}
	}
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
	wanted, p = readSelection(r)
	return window, wanted, p
}

// readSelection reads which queues to sum up: those named, those whose names contain a text, or all. The function
// reports whether a queue is one of them and the caller may view it; nil stands for all queues.
func readSelection(r *http.Request) (wanted func(name string) bool, p *httpio.Problem) {
	values := r.URL.Query()
	if p := httpio.Once(values, "name"); p != nil {
		return nil, p
	}
	seen, text := mayView(r.Context()), values.Get("name")
	if !values.Has("queues") {
		if text == "" {
			return seen, nil
		}
		return func(name string) bool { return strings.Contains(name, text) && (seen == nil || seen(name)) }, nil
	}
	if text != "" {
		return nil, httpio.BadField("name", "must be absent if queues is given")
	}
	names, p := readNames(r)
	if p != nil {
		return nil, p
	}
	return func(name string) bool { return slices.Contains(names, name) && (seen == nil || seen(name)) }, nil
}

// sumForecasts answers with the sum of the forecasts of the named queues, or of all that the caller may view.
func (h *handler) sumForecasts(w http.ResponseWriter, r *http.Request) {
	wanted, p := readSelection(r)
	if p != nil {
		p.Write(w)
		return
	}
	snapshot := h.snapshot(w, r)
	if snapshot == nil {
		return
	}
	f, now, missing := snapshot.Forecast(wanted)
	v := shownForecast(r.Context(), now, &f, nil)
	v.Missing = missing
	h.writeJSON(w, r, http.StatusOK, v)
}
