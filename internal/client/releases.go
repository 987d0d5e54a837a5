package client

import (
	"context"
	"fmt"
	"math"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

const (
	// releasesWindow is how far back Releases looks.
	releasesWindow = "15m"
	// historiesAtOnce is how many queues one request asks about.
	historiesAtOnce = 200
)

// Releases are the released jobs of one queue.
type Releases struct {
	queue.Releases
	// Window is the time they are of, as in 15m. It is empty for all since the queue was created.
	Window string `json:"window,omitempty"`
}

// Text returns them as text: how many of how many, and when.
func (r Releases) Text() string {
	when := "since it was created"
	if r.Window != "" {
		when = "in the last " + r.Window
	}
	return fmt.Sprintf("%d of %d departures %s (%s)", r.Released, r.Departures, when, r.Percent())
}

// Releases returns the releases of queues, by their names. They are of the last 15 minutes as far as the server has
// seen those. Of a queue about which it knows nothing, or all if it cannot say, they are all since the queue was
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
			break // an older server, or one that does not answer
		}
		for name, of := range h.Queues {
			if released, departed, known := counted(of, h.Step); known {
				found[name] = Releases{queue.Releases{Released: released, Departures: released + departed}, releasesWindow}
			}
		}
	}
	return found
}

// counted makes counts of the rates of a history. The outflow is without the departures that were released.
func counted(h wire.HistoryOf, step float64) (released, departed int64, known bool) {
	var back, out float64
	outflow := h.Values["outflow"]
	for n, v := range h.Values["released"] {
		if v != v || n >= len(outflow) || outflow[n] != outflow[n] {
			continue // not known
		}
		known = true
		back += float64(v) * step
		out += float64(outflow[n]) * step
	}
	return int64(math.Round(back)), int64(math.Round(out)), known
}
