package console

import (
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
)

const (
	// attentionRows is the number of problems on the overview.
	attentionRows = 8
	// queueProblems is the number of problems on the page of a queue. A queue has fewer.
	queueProblems = 50
)

// attention is a list of problems, drawn by {{template "attention" act . $}}.
type attention struct {
	Rows []problemRow
	More int    // problems that are not shown
	All  string // link to the page with all problems; empty on that page
	Calm string // shown without problems; may be empty
}

// problemRow is a problem with the button that fixes it.
type problemRow struct {
	wire.Trouble
	Tone string
	Rest string // the text without the name of the queue
	// Button is an API call, URL a link, and Command is to be copied. Only one of the three is set.
	Button  *action
	URL     string
	Command string
}

// attentionOf converts a page of problems.
func (r *request) attentionOf(a *wire.Attention) attention {
	list := attention{More: a.Wrong + a.Warnings - len(a.Problems)}
	for _, t := range a.Problems {
		row := problemRow{Trouble: t, Tone: "warn"}
		if t.Verdict == wire.Wrong {
			row.Tone = "bad"
		}
		row.Rest = t.Text
		if t.Queue != "" {
			row.Rest = strings.TrimPrefix(t.Text, t.Queue+" ")
		} else if t.Text != "" {
			row.Rest = strings.ToUpper(t.Text[:1]) + t.Text[1:]
		}
		r.console.fix(&row)
		list.Rows = append(list.Rows, row)
	}
	return list
}

// besides returns the problems of a queue without those that its own page explains and fixes with a button beside its
// name.
func (l attention) besides() attention {
	rows := l.Rows
	l.Rows = nil
	for _, row := range rows {
		if row.Button == nil || row.Fix.Action == "replay" {
			row.Queue = ""
			row.Rest = strings.ToUpper(row.Rest[:1]) + row.Rest[1:]
			l.Rows = append(l.Rows, row)
		}
	}
	return l
}

// fix fills in the button of a problem.
func (c *Console) fix(row *problemRow) {
	f := &row.Trouble.Fix
	switch queue := f.Queue; {
	case f.Action == "resume", f.Action == "resume_parent", f.Action == "probe":
		row.Button = resume(f.Label, queue)
	case f.Action == "replay":
		replay := new(filter).actions(queue, "dead")[0]
		replay.Label = f.Label
		row.Button = &replay
	case f.Action == "decide":
		row.URL = c.path("queues", queue, "jobs") + "?state=held"
	case f.Action == "set_target":
		row.URL = c.path("queues", queue, "settings") + "#deliver"
	case f.Action == "raise_rate", f.Action == "widen_slack":
		row.URL = c.path("queues", queue, "settings")
	case queue != "":
		row.URL = c.path("queues", queue)
	default:
		row.Command = f.Command
	}
}

// resume returns the button that resumes a queue. It ends a pause and a stop, and lets an open circuit probe now.
func resume(label, queue string) *action {
	return &action{
		Label: label, Method: "POST", Path: apiPath("queues", queue, "resume"), Role: auth.Operate,
		Command: []string{"queue", "resume", queue},
	}
}

// attentionView is the data of the page with all problems.
type attentionView struct {
	attention
	Wrong, Warnings int
	From, To        int
	Back, Forth     string
}

func readAttention(r *request) (any, error) {
	page := pageNumber(r.URL.Query())
	first := (page - 1) * listRows
	a, err := r.api.Attention(r.Context(), "", first, listRows)
	if err != nil {
		return nil, err
	}
	v := attentionView{attention: r.attentionOf(&a), Wrong: a.Wrong, Warnings: a.Warnings}
	v.More, v.Calm = 0, "Nothing needs attention."
	v.From, v.To = first+1, first+len(v.Rows)
	if page > 1 {
		v.Back = pageLink(page - 1)
	}
	if a.Next > 0 {
		v.Forth = pageLink(page + 1)
	}
	return v, nil
}
