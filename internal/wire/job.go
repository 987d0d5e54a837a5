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

// Job is a job and its state. AppendedAt of a deferred job is when it was put on the overflow.
type Job struct {
	Queue    string      `json:"queue"`
	ID       string      `json:"id"`
	State    queue.State `json:"state"`
	Position int64       `json:"position,omitempty"`
	ETA      *queue.ETA  `json:"eta,omitempty"`
	Cost     int64       `json:"cost"`
	// Costs are those in units other than jobs.
	Costs      map[string]int64 `json:"costs,omitempty"`
	Lane       string           `json:"lane,omitempty"`
	Batch      string           `json:"batch,omitempty"`
	Priority   int              `json:"priority,omitempty"`
	Attempts   int              `json:"attempts"`
	AppendedAt *time.Time       `json:"appended_at,omitempty"`
	ExpiresAt  *time.Time       `json:"expires_at,omitempty"`
	DueAt      *time.Time       `json:"due_at,omitempty"`
	HeldAt     *time.Time       `json:"held_at,omitempty"`
	EndedAt    *time.Time       `json:"ended_at,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	Why        *Why             `json:"why,omitempty"`
	Timeline   []Attempt        `json:"timeline,omitempty"`
	// Bounces are the recipients that the mail server refused, parsed from the reason.
	Bounces []bounce.Bounce `json:"bounces,omitempty"`
	// The content, while it is stored: for a single job, and in lists that ask for it.
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 *string           `json:"payload_base64,omitempty"`
	ContentType   string            `json:"content_type,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
}

// SetContent sets the content as it was appended: JSON as such, other bytes in base64. A job without stored content has
// no content type. Headers whose names suggest a secret are masked, since the reader need not be the sender.
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

// Why explains what delays a job that has not departed.
type Why struct {
	By     cause.Cause `json:"by"`
	Until  *time.Time  `json:"until,omitempty"`
	Queue  string      `json:"queue,omitempty"` // the parent, if the cause is not the job's own queue
	Reason string      `json:"reason,omitempty"`
	// Who paused the queue, authenticated and as claimed.
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
	// Share is its share of all departures over the last 10 to 20 s: 1 for the only drainer, nil if there were none.
	Share *float64 `json:"share,omitempty"`
}

// Drainers is the list of drainers.
type Drainers struct {
	Drainers []Drainer `json:"drainers"` // recently active
	// LastSeen is when any drainer was last active; nil if unknown.
	LastSeen *time.Time `json:"last_seen,omitempty"`
	// Now is the clock of the store. Version is the ingress's.
	Now     time.Time `json:"now"`
	Version string    `json:"version"`
}
