package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Event is an event of a stream. Its Kind determines its data.
type Event struct {
	// ID is the position from which a stream can continue; it may be empty.
	ID   string          `json:"id,omitempty"`
	Kind string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

// EventOptions are options of Events.
type EventOptions struct {
	After string // begins after the event with this id
	Once  bool   // does not reconnect
	// Pause is the time before a stream is continued; 0 is one that grows from 1 s with the failures, to 10 s.
	Pause time.Duration
	// Lost is called with the reason each time that the stream is lost.
	Lost func(error)
}

// Events yields the events of a queue, or of all visible queues if the name is empty. If the connection breaks or the
// server stops, the stream continues after the last event. The first failure, and a refusal that no retry can change,
// end it.
func (c *Client) Events(ctx context.Context, queue string, options ...EventOptions) iter.Seq2[*Event, error] {
	o := lastOf(options)
	return func(yield func(*Event, error) bool) {
		after, began := o.After, false
		for failures := 1; ; failures++ {
			left := false
			err := c.stream(ctx, queue, after, func(e *Event) bool {
				began, failures = true, 1
				if e.ID != "" {
					after = e.ID
				}
				left = !yield(e, nil)
				return !left
			})
			if left {
				return
			}
			var gone *Unreachable
			var refused *Problem
			again := errors.As(err, &gone) || errors.As(err, &refused) && refused.Again()
			if o.Once || !began || !again || ctx.Err() != nil {
				yield(nil, err)
				return
			}
			pause := o.Pause
			if pause == 0 {
				pause = max(min(time.Second<<min(failures-1, 4), 10*time.Second)/2, pauseAfter(err, failures))
			}
			c.tell(Notice{Kind: NoticeReconnect, Queue: queue, Attempt: failures, Err: err, Pause: pause})
			if o.Lost != nil {
				o.Lost(err)
			}
			if err := sleep(ctx, pause); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// lastOf returns the last of optional options, or none.
func lastOf[O any](options []O) (o O) {
	if len(options) > 0 {
		o = options[len(options)-1]
	}
	return o
}

// silence is how long a stream may be silent: the server sends something every 15 s.
const silence = time.Minute

// stream calls do with each event of one connection, until do returns false. When the stream ends, the error is a
// *Problem if the server says why, else an *Unreachable.
func (c *Client) stream(ctx context.Context, queue, after string, do func(*Event) bool) error {
	path := "/v1/events"
	if queue != "" {
		path = queuePath(queue, "events")
	}
	if after != "" {
		path += "?after=" + url.QueryEscape(after)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heard := func(time.Duration) {}
	if c.timeout > 0 {
		alarm := time.AfterFunc(c.timeout, func() { cancel(errSilent) })
		defer alarm.Stop()
		heard = func(d time.Duration) { alarm.Reset(d) }
	}
	head := http.Header{"Accept": {"text/event-stream"}}
	if after != "" {
		head.Set("Last-Event-ID", after)
	}
	resp, err := c.Open(ctx, http.MethodGet, path, head, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReader(resp.Body)
	for {
		e, err := readEvent(lines, func() { heard(silence) })
		switch {
		case err != nil:
			return c.unreachable(ctx, err)
		case e.Kind == "end":
			p := &Problem{}
			if err := json.Unmarshal(e.Data, p); err != nil {
				return fmt.Errorf("the end of the stream cannot be read: %w", err)
			}
			return p
		}
		if !do(e) {
			return nil
		}
	}
}

// readEvent reads the next event with a name.
func readEvent(lines *bufio.Reader, heard func()) (*Event, error) {
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
		heard()
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
