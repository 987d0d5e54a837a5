package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// MiddlewareOptions are options of a Middleware.
type MiddlewareOptions struct {
	// Key returns the key of a request; nil is the address of the client.
	Key func(*http.Request) string
	// Cost returns the cost of a request; nil is 1.
	Cost func(*http.Request) int64
	// Wait is how long a request may wait while the rule refuses it.
	Wait time.Duration
	// Timeout is how long the rule may take to answer, beside Wait; 0 is 2 s.
	Timeout time.Duration
	// RefuseOnError answers 503 if the rule cannot be asked. By default the request passes.
	RefuseOnError bool
}

// Middleware returns a middleware that asks a rule about each request. It answers a refused one with 429, Retry-After
// and problem+json. For a concurrency rule, the place is given back in the background when the request has been served,
// or forgotten when that takes longer than the rule's ttl.
func (c *Client) Middleware(rule string, o MiddlewareOptions) func(http.Handler) http.Handler {
	if o.Key == nil {
		o.Key = remoteHost
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			take := Take{Key: o.Key(r), Wait: o.Wait}
			if o.Cost != nil {
				take.Cost = o.Cost(r)
			}
			ctx, stop := outlast(r.Context(), lastAnswer) // to give the place back
			limited, cancel := context.WithTimeout(ctx, o.Wait+o.Timeout)
			taken, head, err := c.take(limited, rule, "take", take)
			cancel()
			stop()
			if err == nil && taken.Lease != "" {
				defer func() { go c.giveBack(r.Context(), rule, Take{Key: take.Key, Lease: taken.Lease}) }()
			}
			for _, name := range []string{"RateLimit-Policy", "RateLimit"} {
				if values := head.Values(name); len(values) > 0 {
					w.Header()[http.CanonicalHeaderKey(name)] = values
				}
			}
			switch {
			case r.Context().Err() != nil: // nobody reads the answer
				return
			case err != nil && o.RefuseOnError:
				c.tell(Notice{Kind: NoticeTakeFailed, Err: err})
				refuse(w, http.StatusServiceUnavailable, ReasonUnavailable, "the rate limit cannot be checked now", time.Second)
				return
			case err != nil:
				c.tell(Notice{Kind: NoticeTakeFailed, Err: err})
			case !taken.Allowed:
				detail := fmt.Sprintf("the limit %s is reached", rule)
				refuse(w, http.StatusTooManyRequests, ReasonLimitReached, detail, taken.RetryAfter())
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// giveBack gives back a place. If that fails, the rule forgets the place after its ttl.
func (c *Client) giveBack(ctx context.Context, rule string, place Take) {
	if _, err := c.Refund(context.WithoutCancel(ctx), rule, place); err != nil {
		c.tell(Notice{Kind: NoticeTakeFailed, Err: err})
	}
}

// problemBase is the URL below which each reason has a page. The type of a problem is this URL and the reason, as in
// answers of the server.
const problemBase = "https://penstock.github.io/penstock/problems/"

// refuse answers with a problem. Retry-After is in whole seconds, rounded up.
func refuse(w http.ResponseWriter, status int, reason, detail string, after time.Duration) {
	body, _ := json.Marshal(map[string]any{ // texts and numbers have no errors
		"type": problemBase + reason, "title": http.StatusText(status), "status": status, "reason": reason,
		"detail": detail, "retry_after_ms": after.Milliseconds(),
	})
	w.Header().Set("Content-Type", "application/problem+json")
	if after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func remoteHost(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
