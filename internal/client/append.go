package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/penstock/penstock/queue"
)

// Answer is the answer about one job of a stream.
type Answer struct {
	Line     int        `json:"line"` // from 1, within the call
	Status   int        `json:"status"`
	ID       string     `json:"id"`
	State    string     `json:"state"`
	Position int64      `json:"position"`
	ETA      *queue.ETA `json:"eta"`

	Reason       string `json:"reason"`
	Detail       string `json:"detail"`
	Field        string `json:"field"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	Rule         string `json:"rule"` // the rule that refused
}

// Accepted reports whether the job was accepted and is new.
func (a *Answer) Accepted() bool { return a.Status == http.StatusAccepted }

// Deferred reports whether the job was accepted and put on the overflow.
func (a *Answer) Deferred() bool { return a.Accepted() && a.State == queue.Deferred.String() }

// Duplicate reports whether the job had been accepted before.
func (a *Answer) Duplicate() bool { return a.Status == http.StatusOK }

// Again reports whether sending the job again, not before RetryAfter, may help: there was no room, or nothing could be
// decided.
func (a *Answer) Again() bool { return (&Problem{Status: a.Status}).Again() }

// RetryAfter returns how long to wait before a retry, 0 if the server did not say.
func (a *Answer) RetryAfter() time.Duration {
	return time.Duration(a.RetryAfterMS) * time.Millisecond
}

// Why returns why the job was not accepted.
func (a *Answer) Why() string {
	p := Problem{Status: a.Status, Reason: a.Reason, Detail: a.Detail, Field: a.Field}
	return p.Error()
}

// Append sends jobs, each a JSON object without line breaks, in one stream and returns their answers in the same order.
// After an error some jobs may have been accepted; sending them again with the same ids is safe.
func (c *Client) Append(ctx context.Context, name string, jobs [][]byte) ([]Answer, error) {
	var body bytes.Buffer
	for _, job := range jobs {
		body.Write(job)
		body.WriteByte('\n')
	}
	req, err := c.request(ctx, http.MethodPost, queuePath(name, "jobs"), bytes.NewReader(body.Bytes()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()

	answers := make([]Answer, len(jobs))
	answered := 0
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for lines.Scan() {
		var a Answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return nil, fmt.Errorf("line %d of the answer cannot be read, is %s an ingress? %w", answered+1, c.shown, err)
		}
		if a.Line > len(jobs) && answered == len(jobs) {
			break // the connection broke, but every job has its answer
		}
		if a.Line < 1 || a.Line > len(jobs) || answers[a.Line-1].Status != 0 {
			return nil, fmt.Errorf("the answer is about line %d of %d: is %s an ingress?", a.Line, len(jobs), c.shown)
		}
		answers[a.Line-1] = a
		answered++
	}
	if err := lines.Err(); err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if answered < len(jobs) {
		return nil, c.unreachable(ctx, fmt.Errorf(
			"%d of %d lines were answered: %w", answered, len(jobs), io.ErrUnexpectedEOF,
		))
	}
	return answers, nil
}
