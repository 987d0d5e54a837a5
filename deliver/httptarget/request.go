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

// net/url's error would quote it
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
		// Jobs are granted tens of milliseconds ahead, which is nothing to a time in seconds that
		// receivers allow minutes for. Behind the gate it would cost the departure its precision.
		target.Signing.sign(req.Header, job.ID, time.Now(), job.Payload)
	}
	return req, nil
}

// blank is a request to a target without headers and body. It is not to be changed.
func (t *Target) blank() (*http.Request, error) {
	if t.empty != nil {
		return t.empty, nil
	}
	return http.NewRequestWithContext(context.Background(), t.Method, t.URL, http.NoBody)
}

// carry gives a request its body. With a reader of bytes the length is known, and the body can be read again when a
// kept connection turns out to be closed before anything was written.
func carry(req *http.Request, payload []byte) {
	if len(payload) == 0 {
		return
	}
	req.ContentLength = int64(len(payload))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }
	req.Body, _ = req.GetBody()
}

// headers are those of a job's request, but for its signature.
func headers(job *drain.Job, target *Target) http.Header {
	n := 6 + len(job.Headers) + len(target.Headers)
	h, values := make(http.Header, n), make([]string, 0, n)
	set := func(name, value string) {
		values = append(values, value)
		h[http.CanonicalHeaderKey(name)] = values[len(values)-1 : len(values) : len(values)]
	}
	set("User-Agent", userAgent)
	for name, value := range job.Headers {
		// an engine may have a job from before they were refused
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
