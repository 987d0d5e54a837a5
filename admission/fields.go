package admission

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

// Quota is what a rule says about one key, as the fields RateLimit-Policy and RateLimit tell it.
type Quota struct {
	Rule      string
	Limit     int64
	Remaining int64
	// Window is in what time so much passes; 0 if there is none, or nobody knows.
	Window time.Duration
	// AtOnce says that the limit is of what goes on at the same time, and knows no window.
	AtOnce bool
	// More is when there is more to take; 0 if nobody waits for it.
	More time.Duration
}

// QuotaOf returns what a rule said under a key. For a refusal, More is when the rule would no longer refuse, and so
// never later than Retry-After says; otherwise it is when it is as if nothing had been taken.
func QuotaOf(r *rules.Rule, key string, d *leaky.Decision) Quota {
	q := Quota{Rule: r.Name, Limit: d.Limit, Remaining: d.Remaining, More: d.ResetAfter}
	if !d.Allowed {
		q.More = d.RetryAfter
	}
	switch b := r.Of(key); {
	case b.TTL > 0:
		q.AtOnce = true
	case !b.Rate.Unlimited(): // when all of it has come back
		n, d := b.Rate.Fraction()
		q.Window = time.Duration(math.Ceil(float64(b.Burst)*float64(d)/float64(n))) * time.Microsecond
	default:
		q.Window = b.Period.D()
	}
	return q
}

// SetFields sets RateLimit-Policy and RateLimit by draft-ietf-httpapi-ratelimit-headers-10; without quotas it sets
// none. The fields know whole seconds only: a window shorter than one is left out, and More is rounded up.
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

// Seconds returns d in whole seconds, rounded up, as Retry-After and its like are written.
func Seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// appendName appends a String of RFC 9651. What that cannot hold is not in a rule's name.
func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

// appendNumber appends a parameter that is an Integer of RFC 9651, which has at most 15 digits.
func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), max(0, min(n, 999_999_999_999_999)), 10)
}
