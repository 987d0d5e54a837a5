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

// Selection selects queues: those named, those whose names contain Text, or all that the caller may view.
type Selection struct {
	Queues []string
	Text   string
}

func (s *Selection) ask() url.Values {
	ask := url.Values{}
	if len(s.Queues) > 0 {
		ask.Set("queues", strings.Join(s.Queues, ","))
	}
	if s.Text != "" {
		ask.Set("name", s.Text)
	}
	return ask
}

// SumForecasts returns the sum of the forecasts of queues.
func (c *Client) SumForecasts(ctx context.Context, of Selection) (f wire.QueueForecast, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/forecast?"+of.ask().Encode(), nil, nil, &f)
	return f, err
}

// Curves returns what came into queues and what left them over a window of 15m, 1h, 6h or 24h. No queues means all that
// the caller may view.
func (c *Client) Curves(ctx context.Context, queues []string, window string) (wire.Curves, error) {
	return c.SumCurves(ctx, Selection{Queues: queues}, window)
}

// SumCurves is Curves of a selection.
func (c *Client) SumCurves(ctx context.Context, of Selection, window string) (f wire.Curves, err error) {
	ask := of.ask()
	ask.Set("window", window)
	_, err = c.do(ctx, http.MethodGet, "/v1/curves?"+ask.Encode(), nil, nil, &f)
	return f, err
}
