package admission

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

// Quota is the state of a rule for one key, as RateLimit-Policy and RateLimit present it.
type Quota struct {
	Rule      string
	Limit     int64
	Remaining int64
	// Window is the time in which Limit passes; 0 if there is none, or if it is unknown.
	Window time.Duration
	// AtOnce says that Limit bounds concurrent requests and has no window.
	AtOnce bool
	// More is the time until more may pass; 0 if more may pass now.
	More time.Duration
}

// QuotaOf returns a rule's quota for a key. After a refusal, More is the time until the rule no longer refuses, so it
// is never later than Retry-After. Otherwise it is the time until the key is as if unused.
func QuotaOf(r *rules.Rule, key string, d *leaky.Decision) Quota {
	q := Quota{Rule: r.Name, Limit: d.Limit, Remaining: d.Remaining, More: d.ResetAfter}
	if !d.Allowed {
		q.More = d.RetryAfter
	}
	switch b := r.Of(key); {
	case b.TTL > 0:
		q.AtOnce = true
	case !b.Rate.Unlimited(): // until all of it is available again
		n, d := b.Rate.Fraction()
		q.Window = time.Duration(math.Ceil(float64(b.Burst)*float64(d)/float64(n))) * time.Microsecond
	default:
		q.Window = b.Period.D()
	}
	return q
}

// SetFields sets RateLimit-Policy and RateLimit by draft-ietf-httpapi-ratelimit-headers-10, or nothing without quotas.
// The fields have whole seconds only: shorter windows are left out, and More is rounded up.
func SetFields(h http.Header, quotas []Quota) {
	if len(quotas) == 0 {
		return
	}
	var policy, limit []byte
	for i := range quotas {
		q := &quotas[i]
		if i > 0 {
			policy, limit = append(policy, ", "...), append(limit, ", "...)
		}
		policy = appendNumber(appendName(policy, q.Rule), ";q=", q.Limit)
		switch {
		case q.AtOnce:
			policy = append(policy, `;qu="concurrent-requests"`...)
		case q.Window >= time.Second:
			policy = appendNumber(policy, ";w=", Seconds(q.Window))
		}
		limit = appendNumber(appendName(limit, q.Rule), ";r=", q.Remaining)
		if q.More > 0 {
			limit = appendNumber(limit, ";t=", Seconds(q.More))
		}
	}
	h.Set("RateLimit-Policy", string(policy))
	h.Set("RateLimit", string(limit))
}

// Seconds returns d in whole seconds, rounded up, as in Retry-After.
func Seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// appendName appends a String of RFC 9651. Rule names contain no characters that it excludes.
func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

// appendNumber appends a parameter with an Integer of RFC 9651, which has at most 15 digits.
func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), max(0, min(n, 999_999_999_999_999)), 10)
}
