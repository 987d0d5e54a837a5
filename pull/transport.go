package pull

import (
	"cmp"
	"net/http"
	"time"
)

// DefaultWithin is the default of Transport.Within.
const DefaultWithin = 30 * time.Second

// Transport is an http.RoundTripper that makes the requests of an HTTP client wait for their turns. Requests leave at
// the pace of a pull queue that all processes share; the waiting requests are that queue. A request that would wait too
// long, or finds the queue full, fails at once with a *Later, which says when to come back. A request whose context
// ends gives its place back. Nothing is sent before the turn has come. A redirect is a request of its own.
type Transport struct {
	Turns *Turns
	// Within is the maximum wait of a request; 0 means DefaultWithin.
	Within time.Duration
	// Base sends the requests; nil means http.DefaultTransport.
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
			_ = r.Body.Close() // a RoundTripper must close it, also on errors
		}
		return nil, err
	}
	return base.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of Base.
func (t *Transport) CloseIdleConnections() {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
