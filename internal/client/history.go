package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock/penstock/internal/wire"
)

// Histories returns the histories of queues over a window of 15m or 24h: the given columns, or all.
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

// History returns the history of a queue over a window of 15m or 24h.
func (c *Client) History(ctx context.Context, name, window string) (h wire.History, err error) {
	ask := "?window=" + url.QueryEscape(window)
	_, err = c.do(ctx, http.MethodGet, queuePath(name, "history")+ask, nil, nil, &h)
	return h, err
}

// Curves returns what came into queues and what left them over a window of 15m, 1h, 6h or 24h. No queues means all that
// the caller may view.
func (c *Client) Curves(ctx context.Context, queues []string, window string) (f wire.Curves, err error) {
	ask := url.Values{"window": {window}}
	if len(queues) > 0 {
		ask.Set("queues", strings.Join(queues, ","))
	}
	_, err = c.do(ctx, http.MethodGet, "/v1/curves?"+ask.Encode(), nil, nil, &f)
	return f, err
}
