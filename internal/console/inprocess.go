package console

import (
	"bytes"
	"io"
	"net/http"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
)

// inProcess is a transport that calls the API's handler on behalf of the sender of a page request: with their session,
// or with the identity of their connection.
type inProcess struct {
	api  http.Handler
	from *http.Request
	// token, if not empty, replaces the session.
	token string
	// recent accepts responses that the API read for other callers within the last second.
	recent bool
}

// client returns an API client that acts for the sender of a request.
func (c *Console) client(from *http.Request) *client.Client {
	return c.clientOf(inProcess{api: c.o.API, from: from})
}

func (c *Console) clientOf(t inProcess) *client.Client {
	api, err := client.New(client.DefaultURL, &http.Client{Transport: t})
	if err != nil {
		panic(err) // the URL is a constant
	}
	return api
}

// RoundTrip serves a request and keeps the whole response in memory, charged to the page request.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	identify(in, t.from)
	if t.token != "" {
		in.Header.Set("Authorization", "Bearer "+t.token)
		in = in.WithContext(r.Context()) // without the mark of a session
	}
	if t.recent {
		in.Header.Set("Cache-Control", "max-age=1")
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	answer := newAnswer(t.from, in.Method)
	t.api.ServeHTTP(answer, in)
	if answer.refused != nil {
		return nil, answer.refused
	}
	return &http.Response{
		Status: http.StatusText(answer.status), StatusCode: answer.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.head, Body: io.NopCloser(&answer.body), ContentLength: int64(answer.body.Len()), Request: r,
	}, nil
}

// identify gives r the identity of the sender of from.
func identify(r, from *http.Request) {
	r.Header.Del("Cookie")
	r.Header.Del("Authorization")
	if token := tokenOf(from); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
		*r = *r.WithContext(auth.OfSession(r.Context())) // only sessions are accepted from a cookie, not tokens
	}
	r.RemoteAddr, r.TLS, r.RequestURI, r.Host = from.RemoteAddr, from.TLS, "", from.Host
}

// answer is an http.ResponseWriter that keeps the response.
type answer struct {
	head   http.Header
	status int
	body   bytes.Buffer
	held   *held
	// writes marks a request that may change something: its response is kept even beyond the memory budget.
	writes  bool
	refused error // why the response was not kept
}

// newAnswer returns an answer for an API request with the given method, charged to the page request from.
func newAnswer(from *http.Request, method string) *answer {
	return &answer{
		head: http.Header{}, status: http.StatusOK, held: heldFor(from),
		writes: method != http.MethodGet && method != http.MethodHead,
	}
}

func (a *answer) Header() http.Header    { return a.head }
func (a *answer) WriteHeader(status int) { a.status = status }

func (a *answer) Write(b []byte) (int, error) {
	if a.refused != nil { // the page must not see a response that lacks its beginning
		return 0, a.refused
	}
	if need := int64(len(b)) * answerCost; a.body.Len()+len(b) > freeSize {
		if a.writes {
			a.held.count(need)
		} else if a.refused = a.held.take(need); a.refused != nil {
			return 0, a.refused
		}
	}
	return a.body.Write(b)
}
