package client

import (
	"context"
	"fmt"
	"math"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

const (
	// releasesWindow is the window of Releases.
	releasesWindow = "15m"
	// historiesAtOnce is how many queues one request may name.
	historiesAtOnce = 200
)

// Releases counts the released departures of one queue.
type Releases struct {
	queue.Releases
	// Window is the time span, as in 15m. Empty means since the queue was created.
	Window string `json:"window,omitempty"`
}

// Text describes the releases: how many of how many departures, and when.
func (r Releases) Text() string {
	when := "since it was created"
	if r.Window != "" {
		when = "in the last " + r.Window
	}
	return fmt.Sprintf("%d of %d departures %s (%s)", r.Released, r.Departures, when, r.Percent())
}

// Releases returns the releases of queues, by name. They cover the last 15 minutes, or the part of them that the server
// has observed. If the server has no history of a queue, or cannot answer, they cover the time since the queue was
// created. Queues that never released a departure are left out.
func (c *Client) Releases(ctx context.Context, queues []wire.Queue) map[string]Releases {
	found := map[string]Releases{}
	var names []string
	for n := range queues {
		if s := &queues[n].Stats; s.Released > 0 {
			names = append(names, queues[n].Name)
			found[queues[n].Name] = Releases{queue.Releases{Released: s.Released, Departures: s.Departures()}, ""}
		}
	}
	for len(names) > 0 {
		some := names[:min(len(names), historiesAtOnce)]
		names = names[len(some):]
		h, err := c.Histories(ctx, some, releasesWindow, "released", "outflow")
		if err != nil {
			break // an older server, or no answer
		}
		for name, of := range h.Queues {
			if released, departed, known := counted(of, h.Step); known {
				found[name] = Releases{queue.Releases{Released: released, Departures: released + departed}, releasesWindow}
			}
		}
	}
	return found
}

// counted converts the rates of a history to counts. The outflow does not include released departures.
func counted(h wire.HistoryOf, step float64) (released, departed int64, known bool) {
	var back, out float64
	outflow := h.Values["outflow"]
	for n, v := range h.Values["released"] {
		if v != v || n >= len(outflow) || outflow[n] != outflow[n] {
			continue // unknown
		}
		known = true
		back += float64(v) * step
		out += float64(outflow[n]) * step
	}
	return int64(math.Round(back)), int64(math.Round(out)), known
}
