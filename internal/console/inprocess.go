package console

import (
	"bytes"
	"io"
	"net/http"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
)

// inProcess sends requests to the API's handler, in the name of who sent the request for a page: by his token, or by
// what his connection proves.
type inProcess struct {
	api  http.Handler
	from *http.Request
	// token is shown in place of the session, if it is not empty.
	token string
	// recent has the API answer what was read within a second for somebody else.
	recent bool
}

// client asks the API in the name of who sent a request.
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

// RoundTrip serves a request. Its answer is whole in memory, as the API makes it, and held for the page.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	identify(in, t.from)
	if t.token != "" {
		in.Header.Set("Authorization", "Bearer "+t.token)
		in = in.WithContext(r.Context()) // which the cookie says nothing of
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

// identify makes a request one of who sent another.
func identify(r, from *http.Request) {
	r.Header.Del("Cookie")
	r.Header.Del("Authorization")
	if token := tokenOf(from); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
		*r = *r.WithContext(auth.OfSession(r.Context())) // a token that was put into the cookie is worth nothing
	}
	r.RemoteAddr, r.TLS, r.RequestURI, r.Host = from.RemoteAddr, from.TLS, "", from.Host
}

// answer is an http.ResponseWriter that keeps what is written.
type answer struct {
	head   http.Header
	status int
	body   bytes.Buffer
	held   *held
	// done is whether the API may have changed something, and so is not refused its answer; refused is why one is.
	done    bool
	refused error
}

// newAnswer keeps the answer to a request of a method, for a page that was asked for.
func newAnswer(from *http.Request, method string) *answer {
	return &answer{
		head: http.Header{}, status: http.StatusOK, held: heldFor(from),
		done: method != http.MethodGet && method != http.MethodHead,
	}
}

func (a *answer) Header() http.Header    { return a.head }
func (a *answer) WriteHeader(status int) { a.status = status }

func (a *answer) Write(b []byte) (int, error) {
	if a.refused != nil { // the page must not read an answer without its beginning
		return 0, a.refused
	}
	if need := int64(len(b)) * answerCost; a.body.Len()+len(b) > freeSize {
		if a.done {
			a.held.count(need)
		} else if a.refused = a.held.take(need); a.refused != nil {
			return 0, a.refused
		}
	}
	return a.body.Write(b)
}
