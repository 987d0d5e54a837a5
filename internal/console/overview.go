package console

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/status"
)

// overviewRows is the number of queues on a page of the overview.
const overviewRows = 50

// overview is the data of the page.
type overview struct {
	wire.Overview
	// Attention are the worst problems of all queues, whatever the filter.
	Attention attention
	// MayCreate reports whether the user may create a queue.
	MayCreate bool
	Store     *wire.Store // nil for users who may not see everything
	Picture   pictureCard
	// Name, State, Sort and Window are the query parameters.
	Name, State, Sort, Window string
	Columns                   []column
	States                    []stateCount
	All                       string // link to queues in any state
	Rows                      []queueRow
	Known                     int    // number of queues whose names match
	From, To                  int    // positions of the first and last row, counted from 1
	Back, Forth               string // links to the previous and next page; may be empty
	Events                    string // path of the event stream of these queues
	Old                       bool   // the data is more than a minute old
	// Delay is the longest delay of a queue with jobs. Finish is when the last job leaves that does leave.
	Delay  string
	Finish outlook
}

// column is a sortable column.
type column struct {
	Key, Title, Hint string
	Number           bool
	URL              string
	Sorted           string // ascending, descending, or empty if another column is sorted
}

// stateCount is the number of queues in a state, with a link to them.
type stateCount struct {
	Code, Text, URL string
	N               int
	Current         bool
}

// queueRow is a row of the table.
type queueRow struct {
	wire.QueueRow
	State  state
	Parent string // set if the row is shown below its parent
	Short  string // the name without the parent's
	Fill   gauge
	Leaves outlook
	Spark  string
}

var overviewColumns = []column{
	{Key: "name", Title: "Queue"},
	{Key: "state", Title: "State", Hint: "State of the queue and its reason. Sorted by urgency."},
	{Key: "fill", Title: "Fill", Hint: "Jobs in the queue and its capacity, or bytes if they leave less room."},
	{Key: "in", Title: "In/s", Number: true, Hint: "Jobs added per second"},
	{Key: "outflow", Title: "Out/s", Number: true, Hint: "Departures per second"},
	{Key: "refused", Title: "Refused/s", Number: true, Hint: "Jobs refused per second for lack of room"},
	{Key: "delay", Title: "Delay", Number: true, Hint: "How long a job added now would wait"},
	{Key: "finish", Title: "Finish", Number: true, Hint: "Time in UTC when the last job leaves, if no more are added"},
	{Key: "rate", Title: "Rate", Number: true, Hint: "Current rate, and the configured rate if it differs"},
}

func readOverview(r *request) (any, error) {
	q := r.URL.Query()
	page := pageNumber(q)
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
	v := overview{Name: q.Get("name"), State: q.Get("state"), Sort: q.Get("sort"), Window: q.Get("window")}
	needs, err := r.api.Attention(r.Context(), "", 0, attentionRows)
	if err != nil {
		return nil, err
	}
	v.Attention = r.attentionOf(&needs)
	v.Attention.All = r.console.path("attention")
	v.MayCreate = mayHave(r.who, auth.Configure)
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
	if v.Picture, err = r.overviewPicture(&v, ask); err != nil {
		return nil, err
	}
	link := func(set ...string) string { return r.console.root + "/" + changed(q, set...) }
	v.columns(link)
	v.states(link)
	if err := v.rows(r); err != nil {
		return nil, err
	}
	v.Old = time.Since(v.AsOf) > time.Minute
	v.outlooks()
	v.From, v.To = first+1, first+len(v.Rows)
	if page > 1 {
		v.Back = link("page", strconv.Itoa(page-1))
	}
	if v.To < v.Total {
		v.Forth = link("page", strconv.Itoa(page+1))
	}
	return v, nil
}

// outlooks sums up when the jobs of all queues leave.
func (v *overview) outlooks() {
	v.Delay = span(time.Duration(v.Sums.DelaySeconds * float64(time.Second)))
	switch at := v.Sums.FinishAt; {
	case at != nil:
		v.Finish.Finish, v.Finish.At = shortTime(*at, time.Now()), at
	case v.Sums.Never > 0:
		v.Finish.Finish = "never"
	}
}

// pageNumber returns the number of the page in a query, counted from 1.
func pageNumber(q url.Values) int {
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil || page < 1 || page > 10_000 {
		return 1
	}
	return page
}

func pageLink(page int) string { return "?page=" + strconv.Itoa(page) }

// overviewAsks are the query parameters that select and sort the queues.
var overviewAsks = []string{"name", "state", "sort"}

// fullState is listed among the states and selects full queues in any state.
const fullState = "full"

// changed returns the query, and the span of the picture, with some parameters replaced. set holds names and values in
// pairs; an empty value removes the parameter. The result selects the first page unless set contains a page.
func changed(q url.Values, set ...string) string {
	n := url.Values{}
	for _, name := range append([]string{"window"}, overviewAsks...) {
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

// asOf returns when the queues were read.
func (v overview) asOf() time.Time { return v.AsOf }

// columns fills in the headings. The first click on a heading sorts by it, greatest first except for names. The next
// click reverses the order.
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

// states fills in links to the queues in each present state, in order of precedence.
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

// rows fills in the queues of the page. A queue is shown below its parent if it directly follows the parent or a
// sibling.
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
	now := time.Now()
	for i := range v.Queues {
		q := &v.Queues[i]
		row := queueRow{QueueRow: *q, State: stateOfRow(q), Fill: fillOf(q)}
		row.Leaves = outlookOf(q.Outlook, q.Size+q.Deferred, now)
		row.Spark = spark(past.Queues[q.Name].Values["depth"])
		parent, short, child := strings.Cut(q.Name, ".")
		if n := len(v.Rows); child && n > 0 && (v.Rows[n-1].Name == parent || v.Rows[n-1].Parent == parent) {
			row.Parent, row.Short = parent, short
		}
		v.Rows = append(v.Rows, row)
	}
	return nil
}
