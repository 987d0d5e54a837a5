package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// problemBase is where the reasons are explained; the fragment is the reason.
const problemBase = "https://github.com/penstock/penstock/blob/main/docs/api.md#"

// Problem is a refusal, sent as RFC 9457 problem details. Reason is what
// programs should look at.
type Problem struct {
	Reason Reason
	Detail string
	Field  string // the field of the request that is at fault, as in "retry.max_attempts"
	ID     string // the job concerned, also when its id was made here
	Limit  int64  // the limit that was passed
	// Bytes is the bound in bytes that leaves no room, of full and lane_full.
	Bytes queue.ByteBound
	// RetryAfter is when to come back. It is sent rounded up to whole seconds in
	// the header and to milliseconds in the body.
	RetryAfter time.Duration
	// ETA is when a job would depart that is worthless by then.
	ETA queue.ETA
	// State is where a job is that could not be cancelled, or is not dead.
	State queue.State
	// Revision is the present revision of what was not at the one expected; -1 leaves it out.
	Revision int64
	// Ruled is what the rule said that refuses, of limit_reached, and of overflow_full if a rule would have the job put
	// aside.
	Ruled *rules.Ruling
	// NotAllowed is of a take that was refused: its body has "allowed": false, as other answers to takes have it.
	NotAllowed bool
	// Rule is one that cannot be asked, of rule_missing; Queues name some that ask it, of rule_in_use.
	Rule   string
	Queues []string
	// Revisions are those that a queue can be rolled back to, of unknown_revision.
	Revisions []int64
}

func (p *Problem) Error() string { return p.Reason.Code + ": " + p.Detail }

// appendBody appends the problem as it stands in the response to a request, of which the id may be empty.
func (p *Problem) appendBody(b []byte, request string) []byte {
	r := p.Reason
	b = append(b, `{"type":"`+problemBase...)
	b = append(b, r.Code...)
	b = append(b, `","title":"`...)
	b = append(b, r.Title...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = p.appendMembers(b)
	b = appendText(b, "request", request)
	return append(b, "}\n"...)
}

// appendMembers appends what a response and a line of a stream have in common,
// beginning with a comma.
func (p *Problem) appendMembers(b []byte) []byte {
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
		b = appendNumber(b, "reset_after_ms", ceilDiv(r.ResetAfter, time.Millisecond))
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
		b = appendNumber(b, "retry_after_ms", ceilDiv(p.RetryAfter, time.Millisecond))
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

// appendText appends a member, or nothing when the value is empty.
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

// appendString appends s as a JSON string; what is not UTF-8 in it is replaced.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the error only tells that something was replaced
	return b
}

var (
	typeProblem = []string{"application/problem+json"}
	typeJSON    = []string{"application/json"}
	typeNDJSON  = []string{"application/x-ndjson"}
	noStore     = []string{"no-store"}
)

// write sends the problem as the whole response.
func (p *Problem) write(w http.ResponseWriter) {
	noteProblem(w, p)
	out := takeOutput()
	defer out.free()
	head := w.Header()
	request := ""
	if id := head[headerRequest]; len(id) > 0 {
		request = id[0]
	}
	out.b = p.appendBody(out.b, request)
	head["Content-Type"] = typeProblem
	if p.RetryAfter > 0 {
		head.Set("Retry-After", strconv.FormatInt(ceilDiv(p.RetryAfter, time.Second), 10))
	}
	w.WriteHeader(p.Reason.Status)
	_, _ = w.Write(out.b) // the client may be gone; there is nobody else to tell
}

func ceilDiv(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
