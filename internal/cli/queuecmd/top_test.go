package queuecmd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// queueOf returns a queue as a server shows it.
func queueOf(name string, s wire.Stats) wire.Queue {
	return wire.Queue{
		Spec: queue.Spec{Name: name, Rate: leaky.PerSecond(10), Capacity: 100},
		Flow: &wire.Flow{Status: wire.Status{Code: status.Flowing}, Stats: s},
	}
}

func TestTopShowsChanges(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	p := &picture{sort: "fullness"}
	first := wire.Stats{Waiting: 50, Counters: queue.Counters{
		Appended: 1000, Replayed: 10, Refused: 7, SetAside: 20, Lost: 100,
	}}
	p.see([]wire.Queue{queueOf("a", first), queueOf("gone", first), queueOf("remade", first)}, nil, at)
	if p.Seconds != 0 || p.Queues[0].speeds != nil {
		t.Errorf("the first look knows %+v", p.Queues[0].speeds)
	}
	const unknown = "     -    0.0          -           -         0       -  flowing"
	if text := p.text(&command.Screen{}, 0); !strings.Contains(text, unknown) {
		t.Errorf("the first look:\n%s", text)
	}
	second := wire.Stats{Waiting: 80, Outflow: 9.5, Counters: queue.Counters{
		Appended: 1020, Replayed: 11, Refused: 8, SetAside: 23, Lost: 106,
	}}
	p.see(
		[]wire.Queue{queueOf("a", second), queueOf("new", second), queueOf("remade", wire.Stats{
			Counters: queue.Counters{Appended: 5},
		})}, nil, at.Add(2*time.Second),
	)
	if got, want := *p.Queues[0].speeds, (speeds{In: 10.5, Refused: 0.5, Deferred: 1.5, Lost: 3}); got != want ||
		p.Queues[0].Name != "a" || p.Queues[0].Out != 9.5 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if p.Queues[1].Name != "new" || p.Queues[1].speeds != nil || p.Queues[2].Name != "remade" ||
		p.Queues[2].speeds != nil {
		t.Errorf("of queues that were not there before: %+v", p.Queues[1:])
	}
	// Two look like one while nothing answers between them.
	p.failed(errors.New("it is \x1b[2J gone"))
	if text := p.text(&command.Screen{}, 0); !strings.Contains(text, "no answer for ") ||
		!strings.Contains(text, "it is \\u001b[2J gone") ||
		!strings.Contains(text, "\na ") {
		t.Errorf("after a failure:\n%s", text)
	}
	second.Appended += 100
	second.SetAside--
	p.see([]wire.Queue{queueOf("a", second)}, nil, at.Add(12*time.Second))
	if s := p.Queues[0].speeds; p.Error != "" || s == nil || s.In != 10 || s.Deferred != 0 {
		t.Errorf("after it came back: %q, %+v", p.Error, s)
	}
}

func TestTopSorts(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for by, want := range map[string]string{
		"fullness": "d", "name": "a", "size": "e", "out": "c", "in": "b", "refused": "f", "deferred": "g", "lost": "h",
	} {
		p := &picture{sort: by}
		look := func(n int64) []wire.Queue {
			list := []wire.Queue{
				queueOf("a", wire.Stats{}), queueOf("b", wire.Stats{Counters: queue.Counters{Appended: n}}),
				queueOf("c", wire.Stats{Outflow: 5}), queueOf("d", wire.Stats{Waiting: 50}),
				queueOf("e", wire.Stats{Leased: 60}), queueOf("f", wire.Stats{Counters: queue.Counters{Refused: n}}), queueOf(
					"g", wire.Stats{Counters: queue.Counters{SetAside: n}},
				), queueOf("h", wire.Stats{Counters: queue.Counters{Lost: n}}),
			}
			list[4].Capacity = 1000
			return list
		}
		p.see(look(1), nil, at)
		p.see(look(2), nil, at.Add(time.Second))
		if p.Queues[0].Name != want {
			t.Errorf("by %s: %s is first, want %s", by, p.Queues[0].Name, want)
		}
	}
}

func TestTopFits(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	p := &picture{Server: "http://" + strings.Repeat("long", 60), sort: "fullness"}
	var list []wire.Queue
	for i := range 100 {
		q := queueOf(strings.Repeat("q", 1+i%64)+fmt.Sprint(".n", i), wire.Stats{
			Waiting: int64(i), Counters: queue.Counters{Appended: 1 << 40},
		})
		if i%2 == 0 {
			q.Paused, q.Status = true, wire.Status{Code: status.Paused, Reason: strings.Repeat("why ", 100)}
		}
		list = append(list, q)
	}
	p.see(list, nil, at)
	for i := range list {
		list[i].Stats.Appended *= 2
	}
	p.see(list, nil, at.Add(time.Second))
	for width := 20; width < 260; width++ {
		text := p.text(&command.Screen{Width: width}, 7)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != 7+headLines+2 || lines[len(lines)-1] != "and 93 more" {
			t.Fatalf("at width %d: %d lines\n%s", width, len(lines), text)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > width {
				t.Fatalf("at width %d: %q", width, line)
			}
		}
		if width >= 80 && !strings.Contains(text, "paused:") || width >= 40 && !strings.Contains(text, "99/100") ||
			width >= 160 && !strings.Contains(text, "REFUSED/S") {
			t.Fatalf("at width %d:\n%s", width, text)
		}
	}
}

func TestBar(t *testing.T) {
	for part, want := range map[float64]string{
		0: "[..........]   0%", 0.0001: "[#.........]   1%", 0.5: "[#####.....]  50%", 0.9999: "[#########.]  99%",
		1: "[##########] 100%", 2.5: "[##########] 250%",
	} {
		if got := barOf(part, 10); got != want {
			t.Errorf("%v: %s, want %s", part, got, want)
		}
	}
}
