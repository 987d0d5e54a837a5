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
	// replayPatience is how long a log may take to arrive and to be replayed; the API has less.
	replayPatience = 150 * time.Second
	// maxParts is how many fields there are with that of the log, and maxPart how long each of the others is.
	maxParts, maxPart = 16, 8 << 10
	// maxDrained is how much of a log that was refused is read on, so that its browser reads why.
	maxDrained = 512 << 20
	// logField is the field of the file. It is the last of the form: the fields before it say what to do with it.
	logField = "log"
)

// replayView is what the page for replaying logs shows.
type replayView struct {
	Asked url.Values // what the form says
	How   []field    // fields that most logs need nothing in
	More  bool       // whether one of those is filled in
	// Refused is why the log could not be replayed, Report what came of it.
	Refused *fault
	Report  *replay.Report
	Charts  []replayChart
	Call    action
}

func readReplay(r *request) (any, error) { return replayOf(r.URL.Query()), nil }

// replayOf is the page with a form that says what was asked.
func replayOf(asked url.Values) *replayView {
	v := &replayView{Asked: asked}
	for _, f := range []field{
		{Name: "cost", Label: "Field that says what a request costs", Hint: "each costs 1"},
		{Name: "format", Label: "Format", Hint: "the log tells", Options: []string{"", "combined", "ndjson", "csv"}},
		{Name: "time", Label: "Field that says when", Hint: "time, timestamp, ts, …"},
		{Name: "time_format", Label: "How that is written", Hint: "2006-01-02 15:04:05"},
		{Name: "timezone", Label: "Zone of times that say none", Hint: "UTC"},
		{
			Name: "spread", Label: "Requests of one whole second", Hint: "are taken as at once",
			Options: []string{"", "true"}, Help: "true puts them evenly into it.",
		},
	} {
		f.Value = asked.Get(f.Name)
		v.More = v.More || f.Value != ""
		v.How = append(v.How, f)
	}
	return v
}

// Lines are the values of a field, one a line.
func (v *replayView) Lines(name string) string { return strings.Join(v.Asked[name], "\n") }

// replay hands the log of a form on to the API as it arrives, and shows what comes of it.
func (c *Console) replay(w http.ResponseWriter, r *http.Request) {
	who, err := c.client(r).Whoami(r.Context())
	if err != nil { // before anything is read for a stranger
		c.refused(w, r, who, err)
		return
	}
	rc := http.NewResponseController(w)
	deadline := time.Now().Add(replayPatience)
	// errors: there is no connection to wait for
	_ = rc.SetReadDeadline(deadline)
	_ = rc.SetWriteDeadline(deadline.Add(30 * time.Second))
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()

	parts, err := r.MultipartReader()
	if err != nil {
		c.badForm(w, r, &fault{Title: "This form cannot be read.", Detail: err.Error(), Back: c.path("replay")})
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

// replayForm reads the fields of a form up to its log. Rules and queues stand one a line.
func replayForm(parts *multipart.Reader) (asked url.Values, log io.Reader, err error) {
	asked = url.Values{}
	for range maxParts {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return asked, nil, errNoLog
		}
		if err != nil {
			return asked, nil, errors.New("the form did not arrive whole; send it again")
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
			return asked, nil, errors.New("the form did not arrive whole; send it again")
		}
		if len(text) > maxPart {
			return asked, nil, fmt.Errorf("%.40s: is longer than %d bytes; try less at once", name, maxPart)
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

// replayCall is the same as a command, where no rule or queue goes by its name: those are the server's.
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

// replayChart is what a rule or queue did over time.
type replayChart struct {
	Most  int64 // what the height is
	Unit  string
	Lines []replayLine
}

// replayLine is one of a chart, a path 1000 wide and 100 high.
type replayLine struct{ Name, Path string }

// replayCharts are those of the rules, and those of the queues behind them.
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
			"waiting at most", each(func(s *replay.Step) int64 { return s.Queues[i].Deepest }),
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

// stairs is the path of values that each hold for one step.
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

// lasting is a length of time as the reports of replays have it: exact below a second.
func lasting(d unit.Duration) string {
	if d.D() < time.Second {
		return fmt.Sprintf("%.3g ms", float64(d.D().Microseconds())/1000)
	}
	return span(d.D())
}
