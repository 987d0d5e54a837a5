package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock/penstock/internal/wire"
)

// Histories tells what some queues did: the columns asked for, all if there are none, over a window of 15m or 24h.
func (c *Client) Histories(
	ctx context.Context, queues []string, window string, columns ...string,
) (h wire.Histories, err error) {
	ask := url.Values{"queues": {strings.Join(queues, ",")}, "window": {window}}
	if len(columns) > 0 {
		ask.Set("columns", strings.Join(columns, ","))
	}
	_, err = c.do(ctx, http.MethodGet, "/v1/history?"+ask.Encode(), nil, nil, &h)
	return h, err
}
