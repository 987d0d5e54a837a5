package pull

import (
	"cmp"
	"net/http"
	"time"
)

// DefaultWithin is how long a Transport waits at most, if it does not say.
const DefaultWithin = 30 * time.Second

// Transport is an http.RoundTripper that makes the requests of an HTTP client wait for their turns: each leaves at the
// pace of a pull queue that all processes share, and the requests that wait are that queue. A request that would wait
// too long, or finds the queue full, fails at once with a *Later, which says how long it would have been; one whose
// context ends gives its place back. Nothing is sent before the turn has come. A redirect is a request of its own.
type Transport struct {
	Turns *Turns
	// Within is the longest that a request waits; 0 means DefaultWithin.
	Within time.Duration
	// Base sends the requests; nil is http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	within, base := t.Within, t.Base
	within = cmp.Or(within, DefaultWithin)
	if base == nil {
		base = http.DefaultTransport
	}
	if err := t.Turns.Wait(r.Context(), within); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper has to
		}
		return nil, err
	}
	return base.RoundTrip(r)
}

// CloseIdleConnections closes those of the Base, as http.Client's does.
func (t *Transport) CloseIdleConnections() {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
