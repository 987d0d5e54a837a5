package cli

import (
	"bytes"
	"io"
	"net/http"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
)

// ownAPI is the API of an engine that this process has opened, without a listener: so what asks an ingress asks a store
// in the same way.
type ownAPI struct{ *api.API }

func overEngine(e queue.Engine) ownAPI { return ownAPI{api.New(e, api.Options{})} }

func (a ownAPI) http() *http.Client { return &http.Client{Transport: a} }

func (a ownAPI) close() { a.Close() }

// RoundTrip implements http.RoundTripper.
func (a ownAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &answer{status: http.StatusOK, head: http.Header{}}
	a.ServeHTTP(w, r)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.head, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// answer keeps what a handler writes.
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
