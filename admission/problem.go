package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// problem is the body of a refusal, by RFC 9457.
type problem struct {
	Type         string   `json:"type"`
	Title        string   `json:"title"`
	Status       int      `json:"status"`
	Detail       string   `json:"detail"`
	Field        string   `json:"field,omitempty"`
	Policies     []string `json:"violated-policies,omitempty"`
	RetryAfterMS int64    `json:"retry_after_ms,omitempty"`
}

// The types registered by draft-ietf-httpapi-ratelimit-headers: for a refusal by a rule, and by its away, which is not
// about a quota.
const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// Refusal says why a rule refuses something: by its numbers, or by its policy while the store cannot be reached.
func Refusal(rule, what, away string, maxKeys int64) string {
	if maxKeys > 0 {
		return fmt.Sprintf("the rule %s has its maximum of %d keys and refuses %s, which has a new key: raise its max_keys, "+
			"or reset the rule; retry after retry_after_ms, when a key is expected to expire", rule, maxKeys, what)
	}
	switch away {
	case "":
		return "the rule " + rule + " refuses " + what + "; it would pass after retry_after_ms, if nothing else does"
	case rules.AwayShare:
		return "the store cannot be reached, and this process's share of the rule " + rule + " refuses " + what +
			"; it would pass after retry_after_ms"
	}
	return "the store cannot be reached, and the rule " + rule + " allows nothing meanwhile (its away is " + away +
		"); retry after retry_after_ms"
}

// refuseLimit refuses a request because of a rule, or of its away.
func refuseLimit(w http.ResponseWriter, rule string, t *rules.Taken) {
	wait := max(t.RetryAfter, time.Millisecond)
	p := problem{
		Type: quotaExceeded, Title: "a limit is reached", Status: http.StatusTooManyRequests,
		Detail:   Refusal(rule, "the request", t.Away, t.MaxKeys),
		Policies: []string{rule}, RetryAfterMS: int64((wait + time.Millisecond - 1) / time.Millisecond),
	}
	if t.Away != "" {
		p.Type, p.Title, p.Policies = reducedCapacity, "reduced capacity for now", nil
	}
	p.write(w, wait)
}

func refuseRequest(w http.ResponseWriter, err error) {
	p := problem{Type: "about:blank", Title: "Bad Request", Status: http.StatusBadRequest, Detail: err.Error()}
	var field *invalid.Error
	if errors.As(err, &field) {
		p.Field, p.Detail = field.Field, field.Reason
	}
	p.write(w, 0)
}

func refuseAway(w http.ResponseWriter, rule string) {
	problem{
		Type: "about:blank", Title: "Service Unavailable", Status: http.StatusServiceUnavailable,
		Detail: "the rule " + rule + " cannot be asked now", RetryAfterMS: retryAway.Milliseconds(),
	}.write(w, retryAway)
}

func (p problem) write(w http.ResponseWriter, wait time.Duration) {
	body, err := json.Marshal(p)
	if err != nil { // cannot happen
		body = []byte("{}")
	}
	head := w.Header()
	head.Set("Content-Type", "application/problem+json")
	head.Set("Cache-Control", "no-store")
	if wait > 0 {
		head.Set("Retry-After", strconv.FormatInt(Seconds(wait), 10))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
