package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
)

// maxHistories is of how many queues one request asks what they did.
const maxHistories = 200

// getHistory tells what a queue did in a window.
func (h *handler) getHistory(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	ask, p := readHistory(r)
	if p != nil {
		p.write(w)
		return
	}
	snapshot, err := h.o.Survey.First(r.Context())
	if err == nil && snapshot.Row(name) == nil { // it may have been made since
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

// listHistories tells the same of several queues, without those that there are not.
func (h *handler) listHistories(w http.ResponseWriter, r *http.Request) {
	ask, p := readHistory(r)
	names, p2 := readNames(r)
	if p == nil {
		p = p2
	}
	if p != nil {
		p.write(w)
		return
	}
	snapshot, err := h.o.Survey.First(r.Context())
	if err != nil {
		h.fail(w, err, "")
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
		if !one.From.Equal(frame.From) { // a reading came between
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

// historyQuery is which part of a history is asked for.
type historyQuery struct {
	window  survey.Window
	columns []string // none is all
}

func readHistory(r *http.Request) (q historyQuery, p *Problem) {
	values := r.URL.Query()
	for _, field := range []string{"window", "columns"} {
		if len(values[field]) > 1 {
			return q, &Problem{Reason: ReasonDuplicateField, Field: field, Detail: "is given twice"}
		}
	}
	switch window := values.Get("window"); window {
	case "", "15m":
		q.window = survey.Fine
	case "24h":
		q.window = survey.Coarse
	default:
		return q, badField("window", shorten(window)+" must be 15m or 24h")
	}
	if columns := values.Get("columns"); columns != "" {
		q.columns = strings.Split(columns, ",")
		known := survey.ColumnNames()
		for _, name := range q.columns {
			if !slices.Contains(known, name) {
				return q, badField("columns", shorten(name)+" must be one of "+strings.Join(known, ", "))
			}
		}
	}
	return q, nil
}

// readNames reads which queues are asked about.
func readNames(r *http.Request) ([]string, *Problem) {
	const field = "queues"
	values := r.URL.Query()[field]
	switch {
	case len(values) > 1:
		return nil, &Problem{Reason: ReasonDuplicateField, Field: field, Detail: "is given twice"}
	case len(values) == 0 || values[0] == "":
		return nil, badField(field, "must be names of queues, with commas between them")
	}
	names := strings.Split(values[0], ",")
	if len(names) > maxHistories {
		return nil, badField(field, "names "+strconv.Itoa(len(names))+" queues, at most "+strconv.Itoa(maxHistories))
	}
	return names, nil
}
