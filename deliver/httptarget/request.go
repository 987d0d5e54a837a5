package httptarget

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
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

func (e *exchange) request(job *drain.Job, target *Target) (*http.Request, error) {
	empty, err := target.blank()
	if err != nil {
		return nil, err
	}
	req := e.traced(empty)
	carry(req, job.Payload)
	req.Header = headers(job, target)
	if target.Signing != nil {
		// The time is tens of milliseconds early, but it is in whole seconds, and receivers accept minutes. Signing behind
		// the gate would make the departure less precise.
		target.Signing.sign(req.Header, job.ID, time.Now(), job.Payload)
	}
	return req, nil
}

// blank returns a request to a target without headers and body. Callers must not change it.
func (t *Target) blank() (*http.Request, error) {
	if t.empty != nil {
		return t.empty, nil
	}
	return http.NewRequestWithContext(context.Background(), t.Method, t.URL, http.NoBody)
}

// carry sets the body of a request. Its length is known, and it can be read again if an idle connection turns out to be
// closed before anything was written.
func carry(req *http.Request, payload []byte) {
	if len(payload) == 0 {
		return
	}
	req.ContentLength = int64(len(payload))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }
	req.Body, _ = req.GetBody()
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
