package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue"
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
	// Ruled is what the rule said that refuses, of limit_reached, and of overflow_full if a rule would have the job put aside.
	Ruled *queue.Ruled
	// NotAllowed is of a take that was refused: its body has "allowed": false, as other answers to takes have it.
	NotAllowed bool
	// Rule is one that cannot be asked, of rule_missing; Queues name some that ask it, of rule_in_use.
	Rule   string
	Queues []string
	// Revisions are those that a queue can be rolled back to, of unknown_revision.
	Revisions []int64
}

// Reason names why a request or a job was refused.
type Reason string

// The reasons. docs/api.md explains each.
const (
	ReasonInvalidJSON    Reason = "invalid_json"
	ReasonInvalidField   Reason = "invalid_field"
	ReasonUnknownField   Reason = "unknown_field"
	ReasonDuplicateField Reason = "duplicate_field"
	ReasonInvalidRequest Reason = "invalid_request"
	ReasonTooLarge       Reason = "too_large"
	ReasonMediaType      Reason = "unsupported_media_type"
	ReasonBodyTimeout    Reason = "body_timeout"
	ReasonBodyBroken     Reason = "body_incomplete"
	ReasonNotFound       Reason = "not_found"
	ReasonMethod         Reason = "method_not_allowed"
	ReasonUnknownQueue   Reason = "unknown_queue"
	ReasonUnknownJob     Reason = "unknown_job"
	ReasonUnknownRev     Reason = "unknown_revision"
	ReasonUnknownRule    Reason = "unknown_rule"
	ReasonConflict       Reason = "conflict"
	ReasonNotCancellable Reason = "not_cancellable"
	ReasonNotDead        Reason = "not_dead"
	ReasonNotHeld        Reason = "not_held"
	ReasonNotEmpty       Reason = "not_empty"
	ReasonHasChildren    Reason = "has_children"
	ReasonRuleInUse      Reason = "rule_in_use"
	ReasonRuleMissing    Reason = "rule_missing"
	ReasonRevision       Reason = "revision_mismatch"
	ReasonFull           Reason = "full"
	ReasonLaneFull       Reason = "lane_full"
	ReasonScheduleFull   Reason = "schedule_full"
	ReasonLimitReached   Reason = "limit_reached"
	ReasonNoTurn         Reason = "no_turn"
	ReasonExpired        Reason = "expired"
	ReasonNoOverflow     Reason = "no_overflow"
	ReasonOverflowFull   Reason = "overflow_full"
	ReasonOverflowAway   Reason = "overflow_unavailable"
	ReasonUnavailable    Reason = "unavailable"
	ReasonNoStore        Reason = "no_store"
	ReasonStoreFull      Reason = "store_full"
	ReasonOutcomeUnknown Reason = "outcome_unknown"
	ReasonCrowded        Reason = "crowded"
	ReasonOverloaded     Reason = "overloaded"
	ReasonOverShare      Reason = "over_share"
	ReasonStopping       Reason = "stopping"
	ReasonDraining       Reason = "draining"
	ReasonNotReady       Reason = "not_ready"
	ReasonInternal       Reason = "internal"
	ReasonMisdirected    Reason = "misdirected"
	ReasonCrossSite      Reason = "cross_site"
	ReasonDelivery       Reason = "delivery"
	ReasonMalformed      Reason = "malformed_request"
	ReasonExpectation    Reason = "expectation_failed"
	ReasonHeaderTooLarge Reason = "header_too_large"
	ReasonTransferCoding Reason = "transfer_coding"
	ReasonHTTPVersion    Reason = "http_version"
)

type meaning struct {
	status int
	title  string
}

var meanings = map[Reason]meaning{
	ReasonInvalidJSON:    {http.StatusBadRequest, "not the JSON that was expected"},
	ReasonInvalidField:   {http.StatusBadRequest, "a field has a value that cannot be used"},
	ReasonUnknownField:   {http.StatusBadRequest, "a field is not known"},
	ReasonDuplicateField: {http.StatusBadRequest, "a field is given twice"},
	ReasonInvalidRequest: {http.StatusBadRequest, "the request contradicts itself"},
	ReasonTooLarge:       {http.StatusRequestEntityTooLarge, "too large"},
	ReasonMediaType:      {http.StatusUnsupportedMediaType, "content type not supported"},
	ReasonBodyTimeout:    {http.StatusRequestTimeout, "the body did not arrive in time"},
	ReasonBodyBroken:     {http.StatusBadRequest, "the body ended early"},
	ReasonNotFound:       {http.StatusNotFound, "no such resource"},
	ReasonMethod:         {http.StatusMethodNotAllowed, "method not allowed"},
	ReasonUnknownQueue:   {http.StatusNotFound, "no such queue"},
	ReasonUnknownJob:     {http.StatusNotFound, "no such job"},
	ReasonUnknownRev:     {http.StatusNotFound, "no such revision is recorded"},
	ReasonUnknownRule:    {http.StatusNotFound, "no such rule"},
	ReasonConflict:       {http.StatusConflict, "another job has this id"},
	ReasonNotCancellable: {http.StatusConflict, "the job cannot be cancelled any more"},
	ReasonNotDead:        {http.StatusConflict, "the job is not dead"},
	ReasonNotHeld:        {http.StatusConflict, "the job is not held"},
	ReasonNotEmpty:       {http.StatusConflict, "the queue still holds jobs"},
	ReasonHasChildren:    {http.StatusConflict, "the queue has children"},
	ReasonRuleInUse:      {http.StatusConflict, "queues ask the rule"},
	ReasonRuleMissing:    {http.StatusServiceUnavailable, "a rule that the queue asks is missing"},
	ReasonRevision:       {http.StatusPreconditionFailed, "it is at another revision"},
	ReasonFull:           {http.StatusTooManyRequests, "the queue is full"},
	ReasonLaneFull:       {http.StatusTooManyRequests, "the lane is full"},
	ReasonScheduleFull:   {http.StatusTooManyRequests, "too many jobs are scheduled"},
	ReasonLimitReached:   {http.StatusTooManyRequests, "a rule refuses it"},
	ReasonNoTurn:         {http.StatusTooManyRequests, "no turn in time"},
	ReasonExpired:        {http.StatusUnprocessableEntity, "the job has expired"},
	ReasonNoOverflow:     {http.StatusUnprocessableEntity, "there is no overflow"},
	ReasonOverflowFull:   {http.StatusTooManyRequests, "too many jobs are deferred"},
	ReasonOverflowAway:   {http.StatusServiceUnavailable, "the overflow cannot be reached"},
	ReasonUnavailable:    {http.StatusServiceUnavailable, "the store cannot be reached"},
	ReasonNoStore:        {http.StatusServiceUnavailable, "the store is not initialised"},
	ReasonStoreFull:      {http.StatusServiceUnavailable, "the store is out of space"},
	ReasonOutcomeUnknown: {http.StatusGatewayTimeout, "outcome unknown"},
	ReasonCrowded:        {http.StatusTooManyRequests, "too many wait"},
	ReasonOverloaded:     {http.StatusServiceUnavailable, "too much at once"},
	ReasonOverShare:      {http.StatusTooManyRequests, "too much at once from one address"},
	ReasonDraining:       {http.StatusServiceUnavailable, "this process is about to stop"},
	ReasonStopping:       {http.StatusServiceUnavailable, "this process is stopping"},
	ReasonNotReady:       {http.StatusServiceUnavailable, "not ready"},
	ReasonInternal:       {http.StatusInternalServerError, "internal error"},
	ReasonMisdirected:    {http.StatusMisdirectedRequest, "not a name of this server"},
	ReasonCrossSite:      {http.StatusForbidden, "a web page of another origin asks"},
	ReasonDelivery:       {http.StatusForbidden, "a job's delivery asks"},
	ReasonMalformed:      {http.StatusBadRequest, "not HTTP that can be read"},
	ReasonExpectation:    {http.StatusExpectationFailed, "an expectation that cannot be met"},
	ReasonHeaderTooLarge: {http.StatusRequestHeaderFieldsTooLarge, "the headers are too large"},
	ReasonTransferCoding: {http.StatusNotImplemented, "transfer coding not supported"},
	ReasonHTTPVersion:    {http.StatusHTTPVersionNotSupported, "HTTP version not supported"},
}

// Status is the HTTP status of a reason.
func (r Reason) Status() int { return meanings[r].status }

func (p *Problem) Error() string { return string(p.Reason) + ": " + p.Detail }

// appendBody appends the problem as it stands in a response of its own.
func (p *Problem) appendBody(b []byte) []byte {
	m := meanings[p.Reason]
	b = append(b, `{"type":"`+problemBase...)
	b = append(b, p.Reason...)
	b = append(b, `","title":"`...)
	b = append(b, m.title...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(m.status), 10)
	b = p.appendMembers(b)
	return append(b, "}\n"...)
}

// appendMembers appends what a response and a line of a stream have in common,
// beginning with a comma.
func (p *Problem) appendMembers(b []byte) []byte {
	b = append(b, `,"reason":"`...)
	b = append(b, p.Reason...)
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
	out := takeOutput()
	defer out.free()
	out.b = p.appendBody(out.b)
	head := w.Header()
	head["Content-Type"] = typeProblem
	if p.RetryAfter > 0 {
		head.Set("Retry-After", strconv.FormatInt(ceilDiv(p.RetryAfter, time.Second), 10))
	}
	w.WriteHeader(p.Reason.Status())
	_, _ = w.Write(out.b) // the client may be gone; there is nobody else to tell
}

func ceilDiv(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
