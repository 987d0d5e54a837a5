package sink

import (
	"context"
	"io"
	"net/http"
	"strconv"
)

// Provider answers requests in place of a Sink, whose faults still apply.
type Provider interface {
	http.Handler
	// Fail answers with an error.
	Fail(w http.ResponseWriter, status int)
	// Own reports whether a path belongs to the simulator, not to the provider's API.
	Own(path string) bool
}

// provide lets the provider answer a request. Requests to the simulator itself are not counted.
func (s *Sink) provide(w http.ResponseWriter, r *http.Request) {
	if s.o.Provider.Own(r.URL.Path) {
		s.o.Provider.ServeHTTP(w, r)
		return
	}
	q := requestOf(r)
	s.count.arrived(q.At)
	body := &bodyHead{ReadCloser: r.Body}
	r.Body = body
	answer := &statusWriter{ResponseWriter: w}
	fate := s.fate(r.Context(), func(ctx context.Context) {
		_, _ = io.Copy(io.Discard, io.LimitReader(body, maxBody))
		q.Body, q.Bytes, q.Answer = string(body.head), body.bytes, Hung
		s.show(q)
		<-ctx.Done()
	})
	switch fate {
	case Hung:
		panic(http.ErrAbortHandler)
	case Dropped:
		_, _ = io.Copy(io.Discard, io.LimitReader(body, maxBody))
	case failed:
		s.retryAfter(answer)
		s.o.Provider.Fail(answer, s.o.Status)
	default:
		s.o.Provider.ServeHTTP(answer, r)
	}
	q.Body, q.Bytes, q.Answer = string(body.head), body.bytes, strconv.Itoa(answer.status)
	if fate == Dropped {
		q.Answer = Dropped
	}
	s.show(q)
	if fate == Dropped {
		panic(http.ErrAbortHandler)
	}
}

// bodyHead remembers the beginning of a body, and its length as far as it was read.
type bodyHead struct {
	io.ReadCloser
	head  []byte
	bytes int64
}

// Read implements io.Reader.
func (b *bodyHead) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	b.head = append(b.head, p[:min(n, maxShownBody-len(b.head))]...)
	return n, err
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController, which flushes.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
