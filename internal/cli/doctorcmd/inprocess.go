package doctorcmd

import (
	"bytes"
	"io"
	"net/http"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
)

// inProcess is a transport to the API of an engine in this process, so that code for a server works with a store too.
type inProcess struct{ *api.API }

func newInProcess(e queue.Engine) inProcess { return inProcess{api.New(e, api.Options{})} }

// RoundTrip implements http.RoundTripper.
func (a inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &answer{status: http.StatusOK, head: http.Header{}}
	a.ServeHTTP(w, r)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.head, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// answer records what a handler writes.
type answer struct {
	status int
	head   http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.head }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
