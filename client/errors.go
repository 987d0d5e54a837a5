package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrInvalid marks the errors of arguments that were refused before anything was sent.
var ErrInvalid = errors.New("invalid")

// Problem is a refusal by the server (RFC 9457). A refusal that is not Penstock's, such as a proxy's, has the reason
// http_error.
type Problem struct {
	Status       int    `json:"status"`
	Title        string `json:"title"`
	Reason       string `json:"reason"` // see the constants that begin with Reason
	Detail       string `json:"detail"`
	Field        string `json:"field"`
	ID           string `json:"id"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	// ETA is when an expiring job would have departed.
	ETA *ETA `json:"eta"`
	// State is the state of a job that could not be cancelled.
	State string `json:"state"`
	// Revision is the present revision, if another was expected.
	Revision int64 `json:"revision"`
	// Rule is the rule that refused; the following fields are its answer. Without a Rule, Limit is in bytes.
	Rule         string `json:"rule"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	Away         string `json:"away"`
	MaxKeys      int64  `json:"max_keys"`
	// Queues are some of the queues that use a rule that was to be deleted.
	Queues []string `json:"queues"`
}

// ReasonHTTPError is the reason of a refusal that is not Penstock's.
const ReasonHTTPError = "http_error"

func (p *Problem) Error() string {
	detail := p.Detail
	if detail == "" {
		detail = p.Title
	}
	if p.Field != "" {
		detail = p.Field + ": " + detail
	}
	return fmt.Sprintf("%s (%s, HTTP %d)", detail, p.Reason, p.Status)
}

// Again reports whether a retry, not before RetryAfter, may help: there was no room, or nothing could be decided.
func (p *Problem) Again() bool {
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// RetryAfter returns how long to wait before a retry, 0 if the server did not say.
func (p *Problem) RetryAfter() time.Duration { return milliseconds(p.RetryAfterMS) }

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Unreachable means that no answer came, or only part of one.
type Unreachable struct {
	URL    string
	Err    error
	Advice string // for the case that nothing listens there
}

func (e *Unreachable) Error() string {
	var op *net.OpError
	if errors.As(e.Err, &op) && op.Op == "dial" {
		text := fmt.Sprintf("nothing answers at %s (%v)", e.URL, op.Err)
		if e.Advice != "" {
			text += ": " + e.Advice
		}
		return text
	}
	return fmt.Sprintf("no answer from %s: %v", e.URL, e.Err)
}

func (e *Unreachable) Unwrap() error { return e.Err }

// problemOf parses a refusal. One that is not Penstock's is converted as well as possible.
func problemOf(resp *http.Response, text []byte) *Problem {
	p := &Problem{}
	if json.Unmarshal(text, p) != nil || p.Reason == "" && p.Detail == "" && p.Title == "" {
		p = &Problem{Title: http.StatusText(resp.StatusCode), Detail: strings.TrimSpace(string(text[:min(len(text), 200)]))}
	}
	if p.Reason == "" {
		p.Reason = ReasonHTTPError
	}
	p.Status = resp.StatusCode
	if p.RetryAfterMS == 0 {
		p.RetryAfterMS = retryAfter(resp.Header).Milliseconds()
	}
	return p
}

// retryAfter reads the header Retry-After, in seconds or as a date. A date is compared with the header Date of the same
// answer, since the clocks may differ.
func retryAfter(head http.Header) time.Duration {
	text := head.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		sent, err := http.ParseTime(head.Get("Date"))
		if err != nil {
			sent = time.Now()
		}
		return max(0, at.Sub(sent))
	}
	return 0
}

// repeatable reports whether a call that can be repeated should be, by its error.
func repeatable(err error) bool {
	var gone *Unreachable
	var p *Problem
	switch {
	case errors.As(err, &gone):
		return true
	case !errors.As(err, &p):
		return false
	}
	switch p.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusTooManyRequests:
		return p.Reason == ReasonCrowded || p.Reason == ReasonOverShare || p.Reason == ReasonAppLimit
	}
	return false
}
