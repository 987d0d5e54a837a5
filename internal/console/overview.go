package console

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/status"
)

// overviewRows is how many queues a page of the overview has.
const overviewRows = 50

// overview is what the page shows.
type overview struct {
	wire.Overview
	Store *wire.Store // nil for who may not see everything
	// Name, State and Sort are what the address asks for.
	Name, State, Sort string
	Columns           []column
	States            []stateCount
	All               string // the link to queues in any state
	Rows              []queueRow
	Known             int    // queues whose names match
	From, To          int    // which of those that are asked for, counted from 1
	Back, Forth       string // links to the pages before and behind; empty if there is none
	Events            string // where what happens to them is followed
	Old               bool   // whether they were read longer ago than one would think
}

// column is one that can be sorted by.
type column struct {
	Key, Title, Hint string
	Number           bool
	URL              string
	Sorted           string // ascending or descending; empty if it is another one
}

// stateCount is how many queues are in a state, and a link to them.
type stateCount struct {
	Code, Text, URL string
	N               int
	Current         bool
}

// queueRow is a queue of the table.
type queueRow struct {
	wire.QueueRow
	State  state
	Parent string // if it is shown below that
	Short  string // its name there
	Fill   gauge
	Spark  string
}

var overviewColumns = []column{
	{Key: "name", Title: "Queue"},
	{Key: "state", Title: "State", Hint: "What it does, and why. Sorted by how much that needs somebody."},
	{Key: "fill", Title: "Fill", Hint: "Jobs that hold a place, of its capacity; or bytes, where those leave less room."},
	{Key: "in", Title: "In/s", Number: true, Hint: "Jobs that came in, a second."},
	{Key: "outflow", Title: "Out/s", Number: true, Hint: "Departures a second."},
	{Key: "refused", Title: "Refused/s", Number: true, Hint: "Jobs for which there was no room, a second."},
	{Key: "oldest", Title: "Oldest", Number: true, Hint: "How long the job at the head has waited."},
	{Key: "rate", Title: "Rate", Number: true, Hint: "At which it sends, and what is set if that is another one."},
}

func readOverview(r *request) (any, error) {
	q := r.URL.Query()
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil || page < 1 || page > 10_000 {
		page = 1
	}
	first := (page - 1) * overviewRows
	ask := url.Values{"limit": {strconv.Itoa(overviewRows)}, "offset": {strconv.Itoa(first)}}
	for _, name := range overviewAsks {
		if value := q.Get(name); value != "" {
			ask.Set(name, value)
		}
	}
	if ask.Get("state") == fullState {
		ask.Del("state")
		ask.Set("full", "true")
	}
	v := overview{Name: q.Get("name"), State: q.Get("state"), Sort: q.Get("sort")}
	if v.Overview, err = r.api.Overview(r.Context(), ask); err != nil {
		return nil, err
	}
	if r.everything() {
		s, err := r.api.Store(r.Context())
		if err != nil {
			return nil, err
		}
		v.Store = &s
	}
	link := func(set ...string) string { return r.console.root + "/" + changed(q, set...) }
	v.columns(link)
	v.states(link)
	if err := v.rows(r); err != nil {
		return nil, err
	}
	v.Old = time.Since(v.AsOf) > time.Minute
	v.From, v.To = first+1, first+len(v.Rows)
	if page > 1 {
		v.Back = link("page", strconv.Itoa(page-1))
	}
	if v.To < v.Total {
		v.Forth = link("page", strconv.Itoa(page+1))
	}
	return v, nil
}

// overviewAsks are the parameters of the address that say which queues are shown, and in which order.
var overviewAsks = []string{"name", "state", "sort"}

// fullState stands among the states for queues without room, whatever else they do.
const fullState = "full"

// changed is a query with some of its parameters set to others, in pairs; an empty one is left out. Whatever changes,
// the first page is shown, unless it is the page that does.
func changed(q url.Values, set ...string) string {
	n := url.Values{}
	for _, name := range overviewAsks {
		if value := q.Get(name); value != "" {
			n.Set(name, value)
		}
	}
	for i := 0; i < len(set); i += 2 {
		if n.Set(set[i], set[i+1]); set[i+1] == "" {
			n.Del(set[i])
		}
	}
	if len(n) == 0 {
		return ""
	}
	return "?" + n.Encode()
}

// columns are the headings: a click sorts by one, the greatest first but of names, and another turns that round.
func (v *overview) columns(link func(...string) string) {
	sorted, falls := strings.CutPrefix(v.Sort, "-")
	for _, c := range overviewColumns {
		to := "-" + c.Key
		if c.Key == "name" {
			to = ""
		}
		if c.Key == sorted || sorted == "" && c.Key == "name" {
			c.Sorted = "ascending"
			if falls {
				c.Sorted = "descending"
			}
			switch {
			case v.Sort != to:
			case falls:
				to = c.Key
			default:
				to = "-" + c.Key
			}
		}
		c.URL = link("sort", to)
		v.Columns = append(v.Columns, c)
	}
}

// states are links to the queues in each state that there is, in order of precedence.
func (v *overview) states(link func(...string) string) {
	v.All = link("state", "")
	add := func(code, text string, n int) {
		if n == 0 && v.State != code {
			return
		}
		s := stateCount{Code: code, Text: text, N: n, URL: link("state", code), Current: v.State == code}
		if s.Current {
			s.URL = v.All
		}
		v.States = append(v.States, s)
	}
	for _, code := range status.Codes() {
		n := v.Sums.States[code]
		v.Known += n
		add(string(code), (&status.Status{Code: code}).Text(time.Time{}), n)
	}
	add(fullState, "full", v.Sums.Full)
}

// rows are the queues of the page. One is shown below its parent if that is the row above, or that of the row above.
func (v *overview) rows(r *request) error {
	if len(v.Queues) == 0 {
		return nil
	}
	names := make([]string, len(v.Queues))
	for i := range v.Queues {
		names[i] = v.Queues[i].Name
	}
	v.Events = r.console.root + "/api/v1/events?" + url.Values{"queues": {strings.Join(names, ",")}}.Encode()
	past, err := r.api.Histories(r.Context(), names, "15m", "depth")
	if err != nil {
		return err
	}
	for i := range v.Queues {
		q := &v.Queues[i]
		row := queueRow{QueueRow: *q, State: stateOf(&q.Status), Fill: fillOf(q)}
		row.Spark = spark(past.Queues[q.Name].Values["depth"])
		parent, short, child := strings.Cut(q.Name, ".")
		if n := len(v.Rows); child && n > 0 && (v.Rows[n-1].Name == parent || v.Rows[n-1].Parent == parent) {
			row.Parent, row.Short = parent, short
		}
		v.Rows = append(v.Rows, row)
	}
	return nil
}
