package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/queue"
)

// Queue is a queue: its spec, and how it is doing.
type Queue struct {
	queue.Spec
	Revision    int64  `json:"revision"`
	Paused      bool   `json:"paused"`
	PauseReason string `json:"pause_reason,omitempty"`
	Stats       Stats  `json:"stats"`
}

// Stats is what a queue holds now and what was counted since it was made.
type Stats struct {
	Waiting   int64 `json:"waiting"`
	Scheduled int64 `json:"scheduled"`
	Leased    int64 `json:"leased"`
	Dead      int64 `json:"dead"`

	Appended  int64 `json:"appended"`
	Delivered int64 `json:"delivered"`
	Retried   int64 `json:"retried"`
	Died      int64 `json:"died"`
	Released  int64 `json:"released"`
	Expired   int64 `json:"leases_expired"`
	Refused   int64 `json:"refused"`
	Lost      int64 `json:"slots_lost"`

	OldestWaiting *time.Time        `json:"oldest_waiting,omitempty"`
	Outflow       float64           `json:"outflow"`
	Next          *time.Time        `json:"next,omitempty"`
	Errors        []queue.LastError `json:"errors"`
}

// Held is how many jobs the queue holds, as its capacity counts them.
func (s *Stats) Held() int64 { return s.Waiting + s.Scheduled + s.Leased }

// Drainer is a process that drains the store.
type Drainer struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	LastSeen time.Time `json:"last_seen"`
}

// Job is where a job is.
type Job struct {
	Queue      string     `json:"queue"`
	ID         string     `json:"id"`
	State      string     `json:"state"`
	Position   int64      `json:"position,omitempty"`
	ETA        *ETA       `json:"eta,omitempty"`
	Cost       int64      `json:"cost"`
	Attempts   int        `json:"attempts"`
	AppendedAt *time.Time `json:"appended_at,omitempty"`
	DueAt      *time.Time `json:"due_at,omitempty"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Reason     string     `json:"reason,omitempty"`
}

// page is how many queues are asked for at once.
const page = 1000

// Queues returns all queues in order of name.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	all := []Queue{}
	after := ""
	for {
		var answer struct {
			Queues []Queue `json:"queues"`
			Next   string  `json:"next"`
		}
		query := url.Values{"limit": {strconv.Itoa(page)}}
		if after != "" {
			query.Set("after", after)
		}
		if _, err := c.do(ctx, http.MethodGet, "/v1/queues?"+query.Encode(), nil, nil, &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Queues...)
		if answer.Next == "" || answer.Next == after {
			return all, nil
		}
		after = answer.Next
	}
}

// Queue returns one queue. A *Problem with reason unknown_queue says that there
// is none.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	var q Queue
	_, err := c.do(ctx, http.MethodGet, queuePath(name), nil, nil, &q)
	return q, err
}

// Conditions of a change, beside a revision.
const (
	// Always changes whatever is there.
	Always = queue.AnyRevision
	// Absent changes only if there is no such queue.
	Absent = 0
)

func condition(revision int64) http.Header {
	switch revision {
	case Always:
		return nil
	case Absent:
		return http.Header{"If-None-Match": {"*"}}
	}
	return http.Header{"If-Match": {`"` + strconv.FormatInt(revision, 10) + `"`}}
}

// Put makes a queue or changes its spec, given as JSON, if it is at the given
// revision; a *Problem with reason revision_mismatch says that it is not.
func (c *Client) Put(ctx context.Context, name string, spec json.RawMessage, revision int64) (Queue, error) {
	var q Queue
	_, err := c.do(ctx, http.MethodPut, queuePath(name), condition(revision), spec, &q)
	return q, err
}

// Delete removes a queue. Without force one that holds jobs is left alone: a
// *Problem with reason not_empty.
func (c *Client) Delete(ctx context.Context, name string, revision int64, force bool) error {
	path := queuePath(name)
	if force {
		path += "?force=true"
	}
	_, err := c.do(ctx, http.MethodDelete, path, condition(revision), nil, nil)
	return err
}

// Pause stops a queue's departures.
func (c *Client) Pause(ctx context.Context, name, reason string) (Queue, error) {
	var q Queue
	_, err := c.do(ctx, http.MethodPost, queuePath(name, "pause"), nil, map[string]string{"reason": reason}, &q)
	return q, err
}

// Resume lets them go on, at the rate.
func (c *Client) Resume(ctx context.Context, name string) (Queue, error) {
	var q Queue
	_, err := c.do(ctx, http.MethodPost, queuePath(name, "resume"), nil, nil, &q)
	return q, err
}

// Job returns where a job is.
func (c *Client) Job(ctx context.Context, queueName, id string) (Job, error) {
	var j Job
	_, err := c.do(ctx, http.MethodGet, queuePath(queueName, "jobs", id), nil, nil, &j)
	return j, err
}

// Drainers lists the processes that drained the store lately.
func (c *Client) Drainers(ctx context.Context) ([]Drainer, error) {
	var answer struct {
		Drainers []Drainer `json:"drainers"`
	}
	_, err := c.do(ctx, http.MethodGet, "/v1/drainers", nil, nil, &answer)
	return answer.Drainers, err
}

// Ready reports whether the ingress can take jobs now; the error says why not.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/readyz", nil, nil, nil)
	return err
}
