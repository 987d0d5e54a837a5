package wire

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/deliver/bounce"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/queue"
)

// Job is where a job is. A deferred one was appended when it was put on the overflow.
type Job struct {
	Queue      string      `json:"queue"`
	ID         string      `json:"id"`
	State      queue.State `json:"state"`
	Position   int64       `json:"position,omitempty"`
	ETA        *queue.ETA  `json:"eta,omitempty"`
	Cost       int64       `json:"cost"`
	Lane       string      `json:"lane,omitempty"`
	Priority   int         `json:"priority,omitempty"`
	Attempts   int         `json:"attempts"`
	AppendedAt *time.Time  `json:"appended_at,omitempty"`
	ExpiresAt  *time.Time  `json:"expires_at,omitempty"`
	DueAt      *time.Time  `json:"due_at,omitempty"`
	HeldAt     *time.Time  `json:"held_at,omitempty"`
	EndedAt    *time.Time  `json:"ended_at,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Why        *Why        `json:"why,omitempty"`
	Timeline   []Attempt   `json:"timeline,omitempty"`
	// Bounces are the recipients that a server of mail refused, as the reason names them.
	Bounces []bounce.Bounce `json:"bounces,omitempty"`
	// What it carries: of one job, and of lists that are asked for it, while it is kept.
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 *string           `json:"payload_base64,omitempty"`
	ContentType   string            `json:"content_type,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
}

// SetContent tells what a job carries, as it is appended: JSON as such, other bytes in base64. One of which nothing is
// kept has no content type. Headers that are secrets by their names are not shown: who put the job in need not be who
// looks.
func (j *Job) SetContent(i *queue.JobInfo) {
	if i.ContentType == "" {
		return
	}
	j.ContentType, j.Headers = i.ContentType, secrets.MaskHeaders(i.Headers)
	if queue.IsJSON(i.ContentType) && jsondepth.Check(i.Payload, jsondepth.Max) == nil && json.Valid(i.Payload) &&
		utf8.Valid(i.Payload) {
		j.Payload = i.Payload
		return
	}
	text := base64.StdEncoding.EncodeToString(i.Payload)
	j.PayloadBase64 = &text
}

// Attempt is one attempt of a job.
type Attempt struct {
	At      *time.Time           `json:"at,omitempty"`
	EndedAt *time.Time           `json:"ended_at,omitempty"`
	Drainer string               `json:"drainer,omitempty"`
	Outcome queue.AttemptOutcome `json:"outcome"`
	Answer  string               `json:"answer,omitempty"`
}

// Why is what holds a job up that has not left.
type Why struct {
	By     cause.Cause `json:"by"`
	Until  *time.Time  `json:"until,omitempty"`
	Queue  string      `json:"queue,omitempty"` // if it is not the job's own: its parent
	Reason string      `json:"reason,omitempty"`
	// Who paused the queue, and who that said that he is.
	Who       string `json:"who,omitempty"`
	ClaimedBy string `json:"claimed_by,omitempty"`
}

// Cancelled is the answer to a cancellation.
type Cancelled struct {
	Queue string      `json:"queue"`
	ID    string      `json:"id"`
	State queue.State `json:"state"`
}

// Drainer is a process that drains the store.
type Drainer struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	LastSeen time.Time `json:"last_seen"`
	// Share is its part of what all drainers were granted over the last 10 to 20 s: 1 if it is the only one, else nil
	// while that is nothing.
	Share *float64 `json:"share,omitempty"`
}

// Drainers is the list of them.
type Drainers struct {
	Drainers []Drainer `json:"drainers"` // seen lately
	// LastSeen is when one last was, whichever; nil if that is not known.
	LastSeen *time.Time `json:"last_seen,omitempty"`
	// Now is the clock of the store, and Version that of the ingress which answers.
	Now     time.Time `json:"now"`
	Version string    `json:"version"`
}
