package client

import (
	"context"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

const (
	// releasesWindow is the window of Releases.
	releasesWindow = "15m"
	// historiesAtOnce is how many queues one request may name.
	historiesAtOnce = 200
)

// Releases returns the releases of queues, by name. They cover the last 15 minutes, or the part of them that the server
// has observed. If the server has no history of a queue, or cannot answer, they cover the time since the queue was
// created. Queues that never released a departure are left out.
func (c *Client) Releases(ctx context.Context, queues []wire.Queue) map[string]wire.Releases {
	found := map[string]wire.Releases{}
	var names []string
	for n := range queues {
		if s := &queues[n].Stats; s.Released > 0 {
			names = append(names, queues[n].Name)
			found[queues[n].Name] = wire.Releases{Releases: queue.Releases{Released: s.Released, Departures: s.Departures()}}
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
			if r, known := wire.ReleasesIn(of, h.Step, releasesWindow); known {
				found[name] = r
			}
		}
	}
	return found
}
