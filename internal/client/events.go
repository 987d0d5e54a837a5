package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// Event is an event of a stream. Its Kind determines its data.
type Event struct {
	// ID is the position from which a stream can continue; it may be empty.
	ID   string          `json:"id,omitempty"`
	Kind string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

// Of returns the data of an event about a queue.
func (e *Event) Of() (of wire.Event, err error) { return of, json.Unmarshal(e.Data, &of) }

// Rows returns the data of a reset or an info.
func (e *Event) Rows() (rows wire.Rows, err error) { return rows, json.Unmarshal(e.Data, &rows) }

// Follow calls do with each event of a queue, or of all visible queues if name is empty. If after is not empty, it
// begins after the event with that id. It returns the error of do. When the stream ends, it returns a *Problem if the
// server says why, else an *Unreachable.
func (c *Client) Follow(ctx context.Context, name, after string, do func(*Event) error) error {
	path := "/v1/events"
	if name != "" {
		path = queuePath(name, "events")
	}
	if after != "" {
		path += "?after=" + url.QueryEscape(after)
	}
	req, err := c.request(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReader(resp.Body)
	for {
		e, err := readEvent(lines)
		switch {
		case err != nil:
			return c.unreachable(ctx, err)
		case e.Kind == "end":
			return endOf(e)
		}
		if err := do(e); err != nil {
			return err
		}
	}
}

// readEvent reads the next event with a name.
func readEvent(lines *bufio.Reader) (*Event, error) {
	e := &Event{}
	var data strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the server never ends a stream this way
			}
			return nil, err
		}
		field, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.ID = value
		case "event":
			e.Kind = value
		case "data":
			if data.Len()+len(value) > maxAnswer {
				return nil, fmt.Errorf("an event is larger than %d bytes", maxAnswer)
			}
			data.WriteString(value)
		case "":
			if len(strings.TrimRight(line, "\r\n")) == 0 && e.Kind != "" {
				e.Data = json.RawMessage(data.String())
				return e, nil
			}
		}
	}
}

// endOf returns the server's reason for the end of a stream.
func endOf(e *Event) error {
	p := &Problem{}
	if err := json.Unmarshal(e.Data, p); err != nil {
		return fmt.Errorf("the end of the stream cannot be read: %w", err)
	}
	return p
}

// reconnect is the delay before a stream is resumed.
const reconnect = time.Second

// FollowOn is like Follow, but resumes the stream after the connection breaks or the server stops. It calls lost each
// time.
func (c *Client) FollowOn(ctx context.Context, name string, do func(*Event) error, lost func(error)) error {
	after := ""
	for began := false; ; {
		err := c.Follow(ctx, name, after, func(e *Event) error {
			began = true
			if e.ID != "" {
				after = e.ID
			}
			return do(e)
		})
		var gone *Unreachable
		var refused *Problem
		again := errors.As(err, &gone) || errors.As(err, &refused) && refused.Again()
		if !began || !again {
			return err
		}
		lost(err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reconnect):
		}
	}
}
