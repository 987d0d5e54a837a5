package httpio

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// problemBase is where the reasons are explained; the fragment is the reason.
const problemBase = "https://github.com/penstock/penstock/blob/main/docs/api.md#"

// Problem is a refusal, sent as RFC 9457 problem details. Programs go by its Reason.
type Problem struct {
	Reason Reason
	Detail string
	Field  string // the invalid field of the request, as in "retry.max_attempts"
	ID     string // the job's id, also if it was generated here
	Limit  int64  // the limit that was exceeded
	// Bytes is the exhausted limit in bytes, for full and lane_full.
	Bytes queue.ByteBound
	// RetryAfter is how long to wait before a retry. It is rounded up to whole seconds in the header and to
	// milliseconds in the body.
	RetryAfter time.Duration
	// ETA is when an expiring job would have departed.
	ETA queue.ETA
	// State is the state of a job that could not be cancelled, replayed or decided.
	State queue.State
	// Revision is the present revision, for revision_mismatch; -1 leaves it out.
	Revision int64
	// Ruled is the ruling that refused, for limit_reached. It is also set for overflow_full if a rule had refused the
	// job.
	Ruled *rules.Ruling
	// NotAllowed adds "allowed": false to the body of a refused take, as in other answers to takes.
	NotAllowed bool
	// Rule is the missing rule, for rule_missing. Queues names some of the queues that use a rule, for rule_in_use.
	Rule   string
	Queues []string
	// Nested repeats title and reason as the member error, in the form that clients of other APIs expect.
	Nested bool
	// Revisions are the recorded revisions, for unknown_revision.
	Revisions []int64
}

func (p *Problem) Error() string { return p.Reason.Code + ": " + p.Detail }

// AppendBody appends the problem as the body of a response. request is the request's id; empty leaves it out.
func (p *Problem) AppendBody(b []byte, request string) []byte {
	r := p.Reason
	b = append(b, `{"type":"`+problemBase...)
	b = append(b, r.Code...)
	b = append(b, `","title":"`...)
	b = append(b, r.Title...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = p.AppendMembers(b)
	b = appendText(b, "request", request)
	if p.Nested {
		b = append(b, `,"error":{"message":`...)
		b = appendString(b, p.Reason.Title+": "+p.Detail)
		b = appendText(b, "type", "penstock")
		b = append(appendText(b, "code", r.Code), '}')
	}
	return append(b, "}\n"...)
}

// AppendMembers appends the members that a response and a line of a stream have in common, beginning with a comma.
func (p *Problem) AppendMembers(b []byte) []byte {
	b = append(b, `,"reason":"`...)
	b = append(b, p.Reason.Code...)
	b = append(b, '"')
	b = appendText(b, "detail", p.Detail)
	b = appendText(b, "field", p.Field)
	b = appendText(b, "id", p.ID)
	if p.State != queue.StateNone {
		b = appendText(b, "state", p.State.String())
	}
	b = appendETA(b, p.ETA)
	if p.NotAllowed {
		b = append(b, `,"allowed":false`...)
	}
	if r := p.Ruled; r != nil {
		b = appendText(b, "rule", r.Rule)
		b = appendNumber(b, "limit", r.Limit)
		b = appendNumber(b, "remaining", r.Remaining)
		b = appendNumber(b, "reset_after_ms", CeilDiv(r.ResetAfter, time.Millisecond))
		b = appendText(b, "away", r.Away)
		if r.MaxKeys > 0 {
			b = appendNumber(b, "max_keys", r.MaxKeys)
		}
	}
	b = appendText(b, "rule", p.Rule)
	if len(p.Queues) > 0 {
		b = append(b, `,"queues":[`...)
		for i, name := range p.Queues {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, name)
		}
		b = append(b, ']')
	}
	if p.Limit > 0 {
		b = appendNumber(b, "limit", p.Limit)
	}
	if n := p.Bytes; n.Max > 0 {
		b = fmt.Appendf(b, `,"bytes":{"held":%d,"max":%d,"needs":%d}`, n.Held, n.Max, n.Needs)
	}
	if p.RetryAfter > 0 {
		b = appendNumber(b, "retry_after_ms", CeilDiv(p.RetryAfter, time.Millisecond))
	}
	if p.Reason == ReasonRevision && p.Revision >= 0 {
		b = appendNumber(b, "revision", p.Revision)
	}
	if p.Reason == ReasonUnknownRev {
		b = append(b, `,"revisions":[`...)
		for i, n := range p.Revisions {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, n, 10)
		}
		b = append(b, ']')
	}
	return b
}

// appendText appends a member, unless the value is empty.
func appendText(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return appendString(b, value)
}

func appendNumber(b []byte, name string, n int64) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return strconv.AppendInt(b, n, 10)
}

// appendString appends s as a JSON string, with invalid UTF-8 replaced.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the error only reports the replacement
	return b
}

// Values of headers. Setting them in the map allocates nothing.
var (
	TypeJSON    = []string{MediaJSON}
	TypeNDJSON  = []string{MediaNDJSON}
	NoStore     = []string{"no-store"}
	Closing     = []string{"close"}
	typeProblem = []string{"application/problem+json"}
)

// Write sends the problem as the whole response.
func (p *Problem) Write(w http.ResponseWriter) {
	note(w, p)
	out := NewOutput()
	defer out.Free()
	head := w.Header()
	request := ""
	if id := head[HeaderRequest]; len(id) > 0 {
		request = id[0]
	}
	out.B = p.AppendBody(out.B, request)
	head["Content-Type"] = typeProblem
	if p.RetryAfter > 0 {
		head.Set("Retry-After", strconv.FormatInt(CeilDiv(p.RetryAfter, time.Second), 10))
	}
	w.WriteHeader(p.Reason.Status)
	_, _ = w.Write(out.B) // an error means that the client is gone
}

// CeilDiv returns d in units, rounded up.
func CeilDiv(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }

// Output is a reusable buffer for a response.
type Output struct{ B []byte }

var outputs = sync.Pool{New: func() any { return &Output{B: make([]byte, 0, 1024)} }}

// NewOutput returns an empty buffer. Free it when the response is written.
func NewOutput() *Output { return outputs.Get().(*Output) }

// Free returns the buffer to the pool, unless it has grown large.
func (o *Output) Free() {
	if cap(o.B) <= 64<<10 {
		o.B = o.B[:0]
		outputs.Put(o)
	}
}
