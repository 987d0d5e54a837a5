package client

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/unit"
)

// Turn waits for a turn of a pull queue, at most wait; when it returns, start. If the turn would not come in time, the
// error is a *Problem with reason no_turn.
func (c *Client) Turn(ctx context.Context, name string, wait time.Duration) (turn wire.Turn, err error) {
	within := unit.Duration(wait)
	_, err = c.do(ctx, http.MethodPost, queuePath(name, "turns"), nil, wire.TurnRequest{Wait: &within}, &turn)
	return turn, err
}
