package cli

import (
	"fmt"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// releasesOf returns the releases of a queue, nil if there are none.
func releasesOf(r *run, api *client.Client, q *wire.Queue) *client.Releases {
	if found, ok := api.Releases(r.ctx, []wire.Queue{*q})[q.Name]; ok {
		return &found
	}
	return nil
}

// releasedText says what it means that many departures were released, and what to do. It is empty if few were.
func releasedText(q *wire.Queue, released *client.Releases) string {
	if released == nil || !released.Many() {
		return ""
	}
	who := "drainers"
	if q.Pull {
		who = "ingresses"
	}
	return fmt.Sprintf("%s were given back unused, usually because they were later than the slack of %v; raise slack, "+
		"give the %s more CPU, or bring them nearer to the store; their /readyz counts the reasons",
		released.Text(), q.EffectiveSlack(), who)
}
