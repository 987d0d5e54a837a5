package httptarget

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
)

const (
	headerIdempotency = "Idempotency-Key" // the id, beside setting.HeaderID
	userAgent         = "Penstock"
)

// errURL is used instead of net/url's error, which would quote the URL.
var errURL = errors.New("deliver.http.url: cannot be requested; it must be an http or https URL")

// outgoing is a request to write.
type outgoing struct {
	to      place
	head    []byte                // everything up to the body, and a short body
	body    func(io.Writer) error // writes a long body; nil without one
	request *http.Request         // tells http.ReadResponse which answers have a body
}

// wire is what requests to a target have in common.
type wire struct {
	outgoing // without a body; head has the request line and the Host
}

// wired returns what requests to a target have in common. check keeps it.
func (t *Target) wired() (*wire, error) {
	if t.wire != nil {
		return t.wire, nil
	}
	req, err := http.NewRequestWithContext(context.Background(), t.Method, t.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := req.Write(&b); err != nil {
		return nil, err
	}
	line, rest, _ := bytes.Cut(b.Bytes(), crlf)
	host, _, _ := bytes.Cut(rest, crlf)
	head := slices.Concat(line, crlf, host, crlf)
	return &wire{outgoing{to: placeOf(req.URL), head: head, request: req}}, nil
}

var crlf = []byte("\r\n")

// placeOf returns where to connect for a URL.
func placeOf(u *url.URL) place {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return place{u.Scheme, net.JoinHostPort(u.Hostname(), port)}
}

// buffers has buffers for the heads of requests.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// render returns a job's request. Its head is in b.
func (w *wire) render(b *bytes.Buffer, job *drain.Job, target *Target) outgoing {
	h := headers(job, target)
	if target.Signing != nil {
		// The time is tens of milliseconds early, but it is in whole seconds, and receivers accept minutes. Signing behind
		// the gate would make the departure less precise.
		target.Signing.sign(h, job.ID, time.Now(), job.Payload)
	}
	b.Reset()
	b.Write(w.head)
	_ = h.Write(b) // a buffer has no errors
	b.WriteString("Content-Length: ")
	b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(len(job.Payload)), 10))
	b.WriteString("\r\n\r\n")
	out := w.outgoing
	if len(job.Payload) <= inline {
		b.Write(job.Payload)
	} else {
		payload := job.Payload
		out.body = func(w io.Writer) error {
			_, err := w.Write(payload)
			return err
		}
	}
	out.head = b.Bytes()
	return out
}

// headers returns the headers of a job's request, except its signature.
func headers(job *drain.Job, target *Target) http.Header {
	n := 6 + len(job.Headers) + len(target.Headers)
	h, values := make(http.Header, n), make([]string, 0, n)
	set := func(name, value string) {
		values = append(values, value)
		h[http.CanonicalHeaderKey(name)] = values[len(values)-1 : len(values) : len(values)]
	}
	set("User-Agent", userAgent)
	for name, value := range job.Headers {
		// Jobs appended by an older version may have such a header.
		if _, own := ownHeaders[http.CanonicalHeaderKey(name)]; !own {
			set(name, value)
		}
	}
	for name, value := range target.Headers {
		set(name, value)
	}
	set("Content-Type", job.ContentType)
	set(setting.HeaderID, job.ID)
	set(setting.HeaderQueue, job.Queue)
	set(setting.HeaderAttempt, strconv.Itoa(job.Attempt))
	set(headerIdempotency, job.ID)
	return h
}
