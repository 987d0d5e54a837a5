package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/penstock/penstock/client"
	"github.com/penstock/penstock/internal/wire"
)

// Event is an event of a stream. Its Kind determines its data.
type Event struct{ client.Event }

// Of returns the data of an event about a queue.
func (e *Event) Of() (of wire.Event, err error) { return of, json.Unmarshal(e.Data, &of) }

// Rows returns the data of a reset or an info.
func (e *Event) Rows() (rows wire.Rows, err error) { return rows, json.Unmarshal(e.Data, &rows) }

// Follow calls do with each event of a queue, or of all visible queues if name is empty. If after is not empty, it
// begins after the event with that id. It returns the error of do. When the stream ends, it returns a *Problem if the
// server says why, else an *Unreachable.
func (c *Client) Follow(ctx context.Context, name, after string, do func(*Event) error) error {
	return c.follow(ctx, name, client.EventOptions{After: after, Once: true}, do)
}

// reconnect is the delay before a stream is resumed.
const reconnect = time.Second

// FollowOn is like Follow, but resumes the stream after the connection breaks or the server stops. It calls lost each
// time.
func (c *Client) FollowOn(ctx context.Context, name string, do func(*Event) error, lost func(error)) error {
	return c.follow(ctx, name, client.EventOptions{Pause: reconnect, Lost: lost}, do)
}

func (c *Client) follow(ctx context.Context, name string, o client.EventOptions, do func(*Event) error) error {
	for e, err := range c.Events(ctx, name, o) {
		if err != nil {
			return err
		}
		if err := do(&Event{*e}); err != nil {
			return err
		}
	}
	return nil
}
