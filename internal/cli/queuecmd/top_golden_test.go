package queuecmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// shop is a picture of queues in all conditions.
func shop() *picture {
	p := &picture{Server: "http://127.0.0.1:8080", sort: "trouble"}
	p.Drainers.Drainers = make([]wire.Drainer, 2)
	list := []wire.Queue{
		queueOf("checkout.receipts", wire.Stats{Waiting: 12, Outflow: 9.5}), queueOf("idle", wire.Stats{}),
		queueOf("mail", wire.Stats{Waiting: 95, Leased: 5, Deferred: 400}), queueOf("payments", wire.Stats{HeldJobs: 3}),
		queueOf("sms", wire.Stats{Waiting: 40}), queueOf("unknown", wire.Stats{Waiting: 1}),
	}
	list[2].Status = wire.Status{Code: status.Flowing, Full: true}
	list[4].Paused, list[4].Status = true, wire.Status{Code: status.Paused, Reason: "the provider is in trouble"}
	seconds := func(n float64) *float64 { return &n }
	rows := []wire.QueueRow{
		{
			Name:    "checkout.receipts",
			Outlook: &wire.Outlook{DelaySeconds: seconds(1.2), FinishAt: in(1200 * time.Millisecond), Exact: true},
		},
		{Name: "idle", Outlook: &wire.Outlook{DelaySeconds: seconds(0), FinishAt: in(0), Exact: true}},
		{
			Name: "mail", Verdict: wire.Wrong,
			Outlook: &wire.Outlook{DelaySeconds: seconds(4000), FinishAt: in(20 * time.Hour)},
		},
		{Name: "payments", Verdict: wire.Warning, Outlook: &wire.Outlook{DelaySeconds: seconds(0), Why: "held"}},
		{Name: "sms", Verdict: wire.Wrong, Outlook: &wire.Outlook{Why: "paused"}},
	}
	p.see(list, rows, pictureNow.Add(-2*time.Second))
	for n := range list {
		list[n].Stats.Counters = queue.Counters{Appended: int64(10 * n)}
	}
	p.see(list, rows, pictureNow)
	return p
}

func TestPicturesOfTop(t *testing.T) {
	for _, width := range []int{80, 120} {
		s := command.Screen{Width: width, Height: 12}
		golden(t, fmt.Sprint("top-", width), newTopScreen(&TopCmd{}, nil, nil, shop()).text(&s)+"\n")
	}
	s := command.Screen{Width: 80, Height: 12, Color: true}
	text := newTopScreen(&TopCmd{}, nil, nil, shop()).text(&s)
	for _, want := range []string{
		"\x1b[7;31m> mail ", "\x1b[31m  sms ", "\x1b[33m  payments", "\n  idle ", "\x1b[1m  NAME",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%q", want, text)
		}
	}
}

func TestOpenQueueOfTop(t *testing.T) {
	open := newTopScreen(&TopCmd{}, nil, nil, shop())
	q := queueOf("mail", wire.Stats{Waiting: 3195, Leased: 5, Lanes: 2})
	q.Capacity, q.Lanes.Rate = 20_000, q.Rate
	open.open = "mail"
	open.view = queueView{name: "mail", queue: q, forecast: pictured["lanes"], problems: wire.Attention{
		Problems: []wire.Trouble{
			{
				Verdict: wire.Wrong, Text: "mail is full and refuses 3 jobs per second", Since: in(-12 * time.Minute),
				Fix: wire.Fix{Command: "penstock queue set mail capacity=40000"},
			},
			{Verdict: wire.Warning, Text: "mail has 7 dead jobs", Reason: "550 unknown \x1b[2J user"},
		},
	}}
	for _, width := range []int{80, 120} {
		for _, unicode := range []bool{false, true} {
			s := command.Screen{Width: width, Height: 60, Unicode: unicode}
			set := map[bool]string{false: "-ascii", true: "-braille"}[unicode]
			golden(t, fmt.Sprint("top-open-", width, set), open.text(&s)+"\n")
		}
	}
	s := command.Screen{Width: 80, Height: 12}
	open.text(&s)
	open.press(keyEnd)
	if text := open.text(&s); !strings.Contains(text, " lines  Esc back") || strings.Count(text, "\n") != 11 ||
		!strings.Contains(text, "deliver") && !strings.Contains(text, "retry") {
		t.Errorf("the end:\n%s", text)
	}
}
