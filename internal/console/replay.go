package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/replay"
	"github.com/penstock/penstock/queue/unit"
)

const (
	// replayPatience limits the time to receive and replay a log. It exceeds the API's own limit.
	replayPatience = 150 * time.Second
	// maxParts is the maximum number of fields, with the log; maxPart the size of each other field in bytes.
	maxParts, maxPart = 16, 8 << 10
	// maxDrained is how many bytes of a refused log are read: browsers show the answer only after sending the log.
	maxDrained = 512 << 20
	// logField is the field of the file. It comes last: the fields before it configure the replay.
	logField = "log"
)

// replayView is the data of the replay page.
type replayView struct {
	Asked   url.Values // the fields of the form
	How     []field    // fields that most logs do not need
	More    bool       // a field of How is filled in
	Refused *fault     // why the log could not be replayed
	Report  *replay.Report
	Charts  []replayChart
	Call    action
}

func readReplay(r *request) (any, error) { return replayOf(r.URL.Query()), nil }

// replayOf returns the page with the form filled in.
func replayOf(asked url.Values) *replayView {
	v := &replayView{Asked: asked}
	for _, f := range []field{
		{Name: "cost", Label: "Cost field", Hint: "each request costs 1"},
		{Name: "format", Label: "Format", Hint: "detect", Options: []string{"", "combined", "ndjson", "csv"}},
		{Name: "time", Label: "Time field", Hint: "time, timestamp, ts, …"},
		{Name: "time_format", Label: "Time format", Hint: "2006-01-02 15:04:05"},
		{Name: "timezone", Label: "Default time zone", Hint: "UTC"},
		{
			Name: "spread", Label: "Requests in the same second", Hint: "simultaneous",
			Options: []string{"", "true"}, Help: "true spreads them evenly over the second.",
		},
	} {
		f.Value = asked.Get(f.Name)
		v.More = v.More || f.Value != ""
		v.How = append(v.How, f)
	}
	return v
}

// Lines returns the values of a field, one per line.
func (v *replayView) Lines(name string) string { return strings.Join(v.Asked[name], "\n") }

// replay streams the log of a form to the API and shows the report.
func (c *Console) replay(w http.ResponseWriter, r *http.Request) {
	who, err := c.client(r).Whoami(r.Context())
	if err != nil { // before anything is read for a stranger
		c.refused(w, r, who, err)
		return
	}
	rc := http.NewResponseController(w)
	deadline := time.Now().Add(replayPatience)
	// an error means that there is no connection with deadlines
	_ = rc.SetReadDeadline(deadline)
	_ = rc.SetWriteDeadline(deadline.Add(30 * time.Second))
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()

	parts, err := r.MultipartReader()
	if err != nil {
		c.badForm(w, r, &fault{Title: "Cannot read the form", Detail: err.Error(), Back: c.path("replay")})
		return
	}
	asked, log, err := replayForm(parts)
	v := replayOf(asked)
	status := http.StatusOK
	if err == nil {
		v.Report, err = c.client(r).ReplayLog(ctx, asked, log)
	}
	if err != nil {
		var p *client.Problem
		if v.Refused = faultOf(err); !errors.As(err, &p) {
			v.Refused = &fault{Status: http.StatusBadRequest, Detail: err.Error()}
		}
		status = v.Refused.Status
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained)
	}
	if v.Report != nil {
		v.Charts = replayCharts(v.Report)
		v.Call = replayCall(asked)
	}
	asked.Del("name")
	c.render(w, r, status, "replay", &view{Page: pageOf("replay"), Title: "Replay", Who: who, Data: v})
}

// replayForm reads the fields of a form up to its log. Rules and queues are one per line.
func replayForm(parts *multipart.Reader) (asked url.Values, log io.Reader, err error) {
	asked = url.Values{}
	for range maxParts {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return asked, nil, errNoLog
		}
		if err != nil {
			return asked, nil, errors.New("the form arrived incomplete; send it again")
		}
		name := part.FormName()
		if name == logField {
			if part.FileName() == "" {
				return asked, nil, errNoLog
			}
			asked.Set("name", part.FileName())
			return asked, part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, maxPart+1))
		if err != nil {
			return asked, nil, errors.New("the form arrived incomplete; send it again")
		}
		if len(text) > maxPart {
			return asked, nil, fmt.Errorf("%.40s: longer than %d bytes; try fewer at a time", name, maxPart)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if line = strings.TrimSpace(line); line != "" {
				asked.Add(name, line)
			}
		}
	}
	return asked, nil, fmt.Errorf("the form has more than %d fields before its log", maxParts-1)
}

var errNoLog = errors.New("choose a log first")

// replayCall returns the equivalent API call. It includes the command only if the form names no rule or queue of the
// server: the command does not know them.
func replayCall(asked url.Values) action {
	a := action{Method: "POST", Path: apiPath("replay")}
	words := []string{"replay", "--log", asked.Get("name")}
	for _, rule := range asked["rule"] {
		if !replay.IsRule(rule) {
			return a
		}
		words = append(words, "--rule", rule)
	}
	for _, q := range asked["queue"] {
		if !strings.Contains(q, "=") {
			return a
		}
		words = append(words, "--queue", q)
	}
	for _, name := range []string{"key", "cost", "format", "time", "time_format", "timezone"} {
		if value := asked.Get(name); value != "" {
			words = append(words, "--"+strings.ReplaceAll(name, "_", "-"), value)
		}
	}
	if asked.Get("spread") == "true" {
		words = append(words, "--spread")
	}
	a.Command = words
	return a
}

// replayChart is the chart of a rule or queue over time.
type replayChart struct {
	Most  int64 // value at the top of the chart
	Unit  string
	Lines []replayLine
}

// replayLine is a line of a chart, an SVG path 1000 wide and 100 high.
type replayLine struct{ Name, Path string }

// replayCharts returns the charts of the rules, then those of the queues.
func replayCharts(r *replay.Report) (charts []replayChart) {
	steps := r.Timeline.Steps
	each := func(of func(*replay.Step) int64) []int64 {
		values := make([]int64, len(steps))
		for i := range steps {
			values[i] = of(&steps[i])
		}
		return values
	}
	in := "in each " + lasting(r.Timeline.Step)
	for i := range r.Rules {
		charts = append(charts, chartOf("requests "+in,
			"allowed", each(func(s *replay.Step) int64 { return s.Rules[i].Allowed }),
			"refused", each(func(s *replay.Step) int64 { return s.Rules[i].Refused }),
		))
	}
	for i := range r.Queues {
		charts = append(charts, chartOf("jobs",
			"most waiting", each(func(s *replay.Step) int64 { return s.Queues[i].Deepest }),
			"refused "+in, each(func(s *replay.Step) int64 { return s.Queues[i].Refused }),
		))
	}
	return charts
}

func chartOf(measure, passed string, good []int64, refused string, bad []int64) replayChart {
	c := replayChart{Unit: measure}
	for i := range good {
		c.Most = max(c.Most, good[i], bad[i])
	}
	c.Lines = []replayLine{{passed, stairs(good, c.Most)}, {refused, stairs(bad, c.Most)}}
	return c
}

// stairs returns the SVG path of a step function.
func stairs(values []int64, most int64) string {
	var path strings.Builder
	last := ""
	for i, v := range values {
		y := short(98 - 96*float64(v)/float64(max(most, 1)))
		switch {
		case i == 0:
			path.WriteString("M0 " + y)
		case y != last:
			path.WriteString("V" + y)
		}
		if i+1 == len(values) || values[i+1] != v {
			path.WriteString("H" + short(1000*float64(i+1)/float64(len(values))))
		}
		last = y
	}
	return path.String()
}

// lasting formats a duration as replay reports do: in milliseconds below one second.
func lasting(d unit.Duration) string {
	if d.D() < time.Second {
		return fmt.Sprintf("%.3g ms", float64(d.D().Microseconds())/1000)
	}
	return span(d.D())
}
