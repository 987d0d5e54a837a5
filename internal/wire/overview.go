package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/status"
)

// Overview is a page of queues as of the ingress's last survey.
type Overview struct {
	AsOf   time.Time  `json:"as_of"`
	Queues []QueueRow `json:"queues"`
	// Total is how many queues match, on all pages.
	Total int `json:"total"`
	// Sums are over all queues whose names match, whatever their states.
	Sums Sums `json:"sums"`
	// Next is the offset of the next page; absent on the last.
	Next int `json:"next,omitempty"`
}

// Sums are totals over queues.
type Sums struct {
	// States counts queues by status. Full counts queues without room.
	States   map[status.Code]int `json:"states"`
	Full     int                 `json:"full"`
	Size     int64               `json:"size"`
	Capacity int64               `json:"capacity"`
	Deferred int64               `json:"deferred"`
	Dead     int64               `json:"dead"`
	In       float64             `json:"in"`
	Out      float64             `json:"out"`
	Refused  float64             `json:"refused"`
	Outflow  float64             `json:"outflow"`
	// FinishAt is when the last job leaves that does leave; null without jobs. Never is how many queues have jobs that
	// never leave as things are, and DelaySeconds the longest delay of a queue with jobs.
	FinishAt     *time.Time `json:"finish_at"`
	Never        int        `json:"never"`
	DelaySeconds float64    `json:"delay_seconds"`
}

// QueueRow is a queue in an Overview.
type QueueRow struct {
	Name     string `json:"name"`
	Revision int64  `json:"revision"`
	Status   Status `json:"status"`
	// Verdict is how bad the worst problem of the queue is; empty without problems. See Attention.
	Verdict Verdict `json:"verdict,omitempty"`
	// SeenAt is the store's time at which the status, and Scheduled to Lanes below, were read.
	SeenAt   time.Time `json:"seen_at"`
	Pull     bool      `json:"pull,omitempty"`
	Children int64     `json:"children,omitempty"`

	Size     int64   `json:"size"`
	Capacity int64   `json:"capacity"`
	Bytes    int64   `json:"bytes"`
	MaxBytes int64   `json:"max_bytes,omitempty"`
	Fill     float64 `json:"fill"` // 1 is full
	Deferred int64   `json:"deferred"`

	Waiting   int64 `json:"waiting"`
	Scheduled int64 `json:"scheduled"`
	Leased    int64 `json:"leased"`
	HeldJobs  int64 `json:"held"`
	Dead      int64 `json:"dead"`
	Lanes     int64 `json:"lanes"`
	// DeadDropped is how many dead jobs were dropped early to make room, since the queue was created.
	DeadDropped int64 `json:"dead_dropped,omitempty"`

	// Flows, in jobs per second.
	In      float64 `json:"in"`
	Out     float64 `json:"out"`
	Refused float64 `json:"refused"`
	Outflow float64 `json:"outflow"`
	// Rate is the actual rate. Configured is the configured one, if it differs.
	Rate       leaky.Rate  `json:"rate"`
	PerSecond  *float64    `json:"per_second"` // nil if unlimited
	Configured *leaky.Rate `json:"configured,omitempty"`

	OldestWaiting *time.Time `json:"oldest_waiting,omitempty"`
	// Outlook is absent while it is not known.
	Outlook *Outlook `json:"outlook,omitempty"`
}

// Outlook sums up the forecast of a queue.
type Outlook struct {
	// DelaySeconds is how long a job appended now would wait, and FinishAt when the last job leaves. Null is never, as
	// things are; Why is then what holds the jobs.
	DelaySeconds *float64   `json:"delay_seconds"`
	FinishAt     *time.Time `json:"finish_at"`
	Why          string     `json:"why,omitempty"`
	// Exact means that arithmetic alone decides the forecast.
	Exact bool `json:"exact"`
}

// Histories are the histories of queues, by name.
type Histories struct {
	// From is the beginning of the first step.
	From     time.Time            `json:"from"`
	Step     float64              `json:"step"`     // in seconds
	Instance string               `json:"instance"` // the ingress that answered; each has its own history
	Queues   map[string]HistoryOf `json:"queues"`
}

// History is the history of one queue.
type History struct {
	From     time.Time `json:"from"`
	Step     float64   `json:"step"`
	Instance string    `json:"instance"`
	HistoryOf
}

// HistoryOf has a value for each step and column.
type HistoryOf struct {
	// Since is when the queue was first seen; nil if it has no history.
	Since  *time.Time        `json:"since"`
	Values map[string]Series `json:"values"`
}

// Series is a column of a history. NaN is null in JSON.
type Series []float32

// MarshalJSON implements json.Marshaler.
func (s Series) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 8*len(s)+2)
	out = append(out, '[')
	for n, v := range s {
		if n > 0 {
			out = append(out, ',')
		}
		if v != v || math.IsInf(float64(v), 0) {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, float64(v), 'f', -1, 32)
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Series) UnmarshalJSON(text []byte) error {
	var values []*float32
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	*s = make(Series, len(values))
	for n, v := range values {
		if (*s)[n] = float32(math.NaN()); v != nil {
			(*s)[n] = *v
		}
	}
	return nil
}

// Curves is what came into queues and what left them, as two cumulative curves: their vertical distance is the number
// of jobs in the queues, their horizontal distance the delay.
type Curves struct {
	Instance string       `json:"instance"` // the ingress that answered
	Points   []CurvePoint `json:"points"`
	Marks    []CurveMark  `json:"marks"`
}

// CurvePoint is the state at a reading. At the first point, Left and Refused are 0.
type CurvePoint struct {
	At      time.Time `json:"at"`
	Arrived int64     `json:"arrived"` // jobs in the queues at the first point included
	Left    int64     `json:"left"`
	Refused int64     `json:"refused"`
}

// CurveMark is an event that explains a bend in the curves.
type CurveMark struct {
	At    time.Time `json:"at"`
	Queue string    `json:"queue,omitempty"` // empty: all queues
	Kind  string    `json:"kind"`
	Text  string    `json:"text,omitempty"`
}
