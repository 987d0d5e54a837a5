package queuecmd

import (
	"context"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// queueView is one queue in top.
type queueView struct {
	name     string
	queue    wire.Queue
	problems wire.Attention
	forecast foreseen
	err      error
}

// maxProblems is the maximum number of problems of a queue that are read.
const maxProblems = 20

// inspect reads a queue.
func inspect(ctx context.Context, api *client.Client, name string) queueView {
	v := queueView{name: name}
	if v.queue, v.err = api.Queue(ctx, name); v.err != nil {
		return v
	}
	if v.problems, v.err = api.Attention(ctx, name, 0, maxProblems); v.err != nil {
		return v
	}
	if v.forecast.QueueForecast, v.err = api.Forecast(ctx, name); v.err != nil {
		return v
	}
	curves, err := api.Curves(ctx, []string{name}, "15m")
	v.forecast.past, v.err = &curves, err
	return v
}

// lines returns the status sentence, the problems with their fixes, the picture and the facts.
func (v *queueView) lines(s *command.Screen, now time.Time) []string {
	if v.err != nil {
		return styled(s, show.Wrapped(show.Text(v.err.Error()), s.Width), styleWrong)
	}
	lines := styled(s, show.Wrapped(v.name+": "+State(&v.queue), s.Width), styleHead)
	for i := range v.problems.Problems {
		p := &v.problems.Problems[i]
		text := hanging(string(p.Verdict)+":", problemText(p, now), len(wire.Warning)+2, s.Width)
		lines = append(lines, styled(s, linesOf(text), verdictStyle(p.Verdict))...)
	}
	lines = append(append(lines, ""), linesOf(v.forecast.onScreen(s))...)
	r := report{Queue: v.queue}
	return append(append(lines, ""), linesOf(command.FactsIn(s.Width, r.facts(now)[4:]...))...)
}

// problemText describes a problem and its fix.
func problemText(p *wire.Trouble, now time.Time) string {
	text := command.TroubleText(p, now)
	if p.Fix.Command != "" {
		text += "; to fix it: " + p.Fix.Command
	}
	return show.Text(text)
}

func styled(s *command.Screen, lines []string, style string) []string {
	for n := range lines {
		lines[n] = s.Styled(show.Cut(lines[n], s.Width), style)
	}
	return lines
}

func linesOf(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
