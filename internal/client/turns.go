package client

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/unit"
)

// Turn waits up to wait for a turn of a pull queue: when it returns, start. A *Problem with reason no_turn says that it
// would not come in time.
func (c *Client) Turn(ctx context.Context, name string, wait time.Duration) (turn wire.Turn, err error) {
	within := unit.Duration(wait)
	_, err = c.do(ctx, http.MethodPost, queuePath(name, "turns"), nil, wire.TurnRequest{Wait: &within}, &turn)
	return turn, err
}
