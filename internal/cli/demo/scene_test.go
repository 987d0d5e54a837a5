package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
)

func TestSceneDraws(t *testing.T) {
	arrivals := []receiver.Arrival{
		{At: 0},
		{At: 41 * time.Millisecond},
		{At: 79 * time.Millisecond},
		{At: 82 * time.Millisecond},
		{At: 160 * time.Millisecond},
	}
	var f film
	f.scene(snapshot{})
	s := f.scene(snapshot{
		at: 500 * time.Millisecond, now: 205 * time.Millisecond, held: 25, capacity: 50, rate: leaky.PerSecond(25),
		offered: 40, accepted: 30, setAside: 20, deferred: 12, refused: 10, waiting: 3, arrivals: arrivals,
	})
	if s.Inflow != 60 || s.Refusals != 20 || s.Out != 10 {
		t.Errorf("inflow %v, refusals %v, out %v", s.Inflow, s.Refusals, s.Out)
	}
	drawn := s.Draw(80)
	if n := strings.Count(drawn, "\n"); n != Height {
		t.Errorf("%d lines, Height is %d", n, Height)
	}
	for line := range strings.Lines(drawn) {
		if n := len([]rune(line)); n > 120 {
			t.Errorf("a line of %d: %s", n, line)
		}
	}
	for _, want := range []string{"25 of 50", "||2·|·", "refused   10", "▒▒▒ ", "12 deferred, 8 of 20 readmitted"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("no %q in\n%s", want, drawn)
		}
	}
	if line := s.Line(); !strings.Contains(line, "[██████████░░░░░░░░░░]") || strings.Contains(line, "\n") {
		t.Error(line)
	}
}

func TestConclude(t *testing.T) {
	good := func() Report {
		return Report{Messages: 5, Account: prove.Account{Accepted: 5, Delivered: 5}, Law: prove.LawReport{Held: true}}
	}
	for want, spoil := range map[string]func(*Report){
		"":                      func(*Report) {},
		"nothing was delivered": func(r *Report) { *r = Report{Law: prove.LawReport{Held: true}} },
		"4 of 5 messages":       func(r *Report) { r.Accepted = 4 },
		"2 messages were deferred, but 1 were readmitted": func(r *Report) { r.Deferred, r.Readmitted = 2, 1 },
		"never arrived":         func(r *Report) { r.Lost = 1 },
		"duplicates":            func(r *Report) { r.Twice = 1 },
		"not accepted messages": func(r *Report) { r.Strangers = 1 },
		"the window law":        func(r *Report) { r.Law.Held = false },
	} {
		r := good()
		spoil(&r)
		r.conclude(nil)
		if r.Held != (want == "") || !strings.Contains(strings.Join(r.Broken, ";"), want) {
			t.Errorf("%q: held %v, %v", want, r.Held, r.Broken)
		}
	}
	r := good()
	if r.conclude([]string{"line 3: not JSON"}); r.Held {
		t.Error("a message that failed was passed over")
	}
}
