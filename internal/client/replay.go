package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/penstock/penstock/internal/replay"
)

// ReplayLog returns what rules and queues would have done with a log. ask has the parameters of the API's operation.
func (c *Client) ReplayLog(ctx context.Context, ask url.Values, log io.Reader) (*replay.Report, error) {
	head := http.Header{"Content-Type": {"application/octet-stream"}}
	resp, err := c.Open(ctx, http.MethodPost, "/v1/replay?"+ask.Encode(), head, log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	r := &replay.Report{}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(r); err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	return r, nil
}
