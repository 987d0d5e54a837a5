package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Appended is a job that was accepted, or refused.
type Appended struct {
	ID       string
	State    State
	Position int64 // 1 is the next job of its lane to leave; 0 if unknown
	ETA      *ETA
	// Duplicate means that the queue knew the job already. State is then its present state.
	Duplicate bool
	// Err is why the job was not accepted; of lists and streams only.
	Err error
}

// Append appends a job. Its payload is encoded as JSON; a json.RawMessage is passed on unchanged, but without line
// breaks. A job without an id gets a random one, so that retries are safe. If the job is refused, the result has its
// id.
func (c *Client) Append(ctx context.Context, queue string, job Job) (Appended, error) {
	text, id, err := encodeJob(job)
	if err != nil {
		return Appended{}, err
	}
	var answer struct {
		ID       string `json:"id"`
		State    State  `json:"state"`
		Position int64  `json:"position"`
		ETA      *ETA   `json:"eta"`
	}
	r := &Request{Method: http.MethodPost, Path: queuePath(queue, "jobs"), Repeatable: true}
	head, err := c.call(ctx, r, text, &answer)
	if err != nil {
		var refused *Problem
		if errors.As(err, &refused) && refused.ID == "" {
			refused.ID = id
		}
		return Appended{ID: id}, err
	}
	return Appended{
		ID: answer.ID, State: answer.State, Position: answer.Position, ETA: answer.ETA,
		Duplicate: head.Get("Idempotent-Replayed") == "true",
	}, nil
}

// AppendMany appends jobs, in few requests one after another, and returns a result for each, in the order of the jobs.
// The error is that of the first job that was not accepted. Requests are repeated, but jobs that are refused are not.
// If a request is repeated, its jobs may wait behind the jobs of the next request.
func (c *Client) AppendMany(ctx context.Context, queue string, jobs []Job) ([]Appended, error) {
	results := make([]Appended, len(jobs))
	s := newStream(ctx, c, queue, StreamOptions{RetryFor: -1, InFlight: max(1, len(jobs))})
	s.requests = 1 // the jobs wait in the order of the list
	source := func(yield func(Job) bool) {
		for i := range jobs {
			if !yield(jobs[i]) {
				return
			}
		}
	}
	for e := range s.run(source) {
		if e != nil {
			results[e.number] = e.result
		}
	}
	for i := range results {
		switch {
		case results[i].Err != nil:
			return results, results[i].Err
		case results[i].State == "":
			return results, c.unreachable(ctx, context.Cause(ctx))
		}
	}
	return results, nil
}

// encodeJob returns a job as a line of JSON, and its id.
func encodeJob(j Job) (text []byte, id string, err error) {
	if (j.Payload == nil) == (j.PayloadBytes == nil) {
		return nil, j.ID, fmt.Errorf("%w: a job needs either Payload or PayloadBytes", ErrInvalid)
	}
	if j.ID == "" {
		j.ID = newID()
	}
	var payload []byte
	name := "payload"
	if j.PayloadBytes != nil {
		name = "payload_base64"
		payload, err = json.Marshal(j.PayloadBytes)
	} else {
		payload, err = encodePayload(j.Payload)
	}
	if err != nil {
		return nil, j.ID, fmt.Errorf("%w: encode the payload of job %s: %w", ErrInvalid, j.ID, err)
	}
	j.Payload, j.PayloadBytes = nil, nil
	rest, err := json.Marshal(j)
	if err != nil {
		return nil, j.ID, fmt.Errorf("%w: encode job %s: %w", ErrInvalid, j.ID, err)
	}
	text = make([]byte, 0, len(rest)+len(name)+len(payload)+4)
	text = append(append(append(text, `{"`...), name...), `":`...)
	text = append(append(append(text, payload...), ','), rest[1:]...) // rest has at least the id
	return text, j.ID, nil
}

// encodePayload does not escape for HTML, as json.Marshal would.
func encodePayload(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		switch {
		case !json.Valid(raw):
			return nil, errors.New("it is not valid JSON")
		case bytes.ContainsAny(raw, "\r\n"):
			var line bytes.Buffer
			err := json.Compact(&line, raw)
			return line.Bytes(), err
		}
		return raw, nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'}), err
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Accepted reports whether the job was accepted and is new.
func (l *Line) Accepted() bool { return l.Status == http.StatusAccepted }

// Deferred reports whether the job was accepted and put on the overflow.
func (l *Line) Deferred() bool { return l.Accepted() && l.State == StateDeferred }

// Duplicate reports whether the job had been accepted before.
func (l *Line) Duplicate() bool { return l.Status == http.StatusOK }

// Again reports whether sending the job again, not before RetryAfter, may help: there was no room, or nothing could be
// decided.
func (l *Line) Again() bool { return l.problem().Again() }

// RetryAfter returns how long to wait before a retry, 0 if the server did not say.
func (l *Line) RetryAfter() time.Duration { return milliseconds(l.RetryAfterMS) }

// Why returns why the job was not accepted.
func (l *Line) Why() string { return l.problem().Error() }

func (l *Line) problem() *Problem {
	return &Problem{
		Status: l.Status, Reason: l.Reason, Detail: l.Detail, Field: l.Field, ID: l.ID, RetryAfterMS: l.RetryAfterMS,
		ETA: l.ETA, State: string(l.State), Rule: l.Rule, Limit: l.Limit, Remaining: l.Remaining,
		ResetAfterMS: l.ResetAfterMS, Away: l.Away, MaxKeys: l.MaxKeys,
	}
}

// AppendLines sends jobs, each a JSON object without line breaks, in one request and returns their answers in the same
// order. It is for programs with retries of their own: nothing is repeated. After an error some jobs may have been
// accepted; sending them again with the same ids is safe.
func (c *Client) AppendLines(ctx context.Context, queue string, jobs [][]byte) ([]Line, error) {
	answers := make([]Line, len(jobs))
	err := c.exchange(ctx, queue, jobs, func(i int, l *Line, _ bool) { answers[i] = *l })
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// exchange sends jobs in one request and calls each with their answers. more says that another answer is at hand.
func (c *Client) exchange(
	ctx context.Context, queue string, jobs [][]byte, each func(i int, l *Line, more bool),
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heard := func() {}
	if c.timeout > 0 {
		silence := time.AfterFunc(c.timeout, func() { cancel(errSilent) })
		defer silence.Stop()
		heard = func() { silence.Reset(c.timeout) }
	}
	body := append(bytes.Join(jobs, []byte{'\n'}), '\n')
	head := http.Header{"Content-Type": {"application/x-ndjson"}}
	resp, err := c.Open(ctx, http.MethodPost, queuePath(queue, "jobs"), head, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()

	answered := make([]bool, len(jobs))
	left := len(jobs)
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		text, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) == 0 || err != nil && !errors.Is(err, io.EOF) {
			switch {
			case err == nil:
				continue
			case left == 0 && errors.Is(err, io.EOF):
				return nil
			case errors.Is(err, io.EOF):
				err = short(len(jobs)-left, len(jobs))
			}
			return c.unreachable(ctx, err)
		}
		heard()
		var l Line
		if fault := parseLine(text, &l); fault != nil {
			if err != nil && text[0] == '{' { // cut short
				return c.unreachable(ctx, short(len(jobs)-left, len(jobs)))
			}
			return fmt.Errorf("line %d of the answer cannot be read, is %s an ingress? %w", len(jobs)-left+1, c.shown, fault)
		}
		switch l.Reason {
		case ReasonStopping, ReasonUnauthenticated, ReasonBodyTimeout, ReasonBodyIncomplete: // why the stream ended
			if left == 0 {
				return nil
			}
			return c.unreachable(ctx, l.problem())
		}
		i := l.Line - 1
		if i >= len(jobs) && left == 0 {
			return nil // the connection broke, but every job has its answer
		}
		if i < 0 || i >= len(jobs) || answered[i] {
			return fmt.Errorf("the answer is about line %d of %d: is %s an ingress?", l.Line, len(jobs), c.shown)
		}
		answered[i] = true
		left--
		each(i, &l, lines.Buffered() > 0)
	}
}

func short(answered, of int) error {
	return fmt.Errorf("%d of %d lines were answered: %w", answered, of, io.ErrUnexpectedEOF)
}
