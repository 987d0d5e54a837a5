package post

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
)

const (
	headerIdempotency = "Idempotency-Key" // the id, beside setting.HeaderID
	userAgent         = "Penstock"
)

var errURL = errors.New("deliver.http.url: cannot be requested; it must be an http or https URL") // net/url's error would quote it

func (a *attempt) request(job *drain.Job, target *Target) (*http.Request, error) {
	ctx := httptrace.WithClientTrace(a.ctx, &httptrace.ClientTrace{GotConn: a.gotConn})
	// With a reader of bytes the length is known, and the body can be read again when a
	// kept connection turns out to be closed before anything was written.
	req, err := http.NewRequestWithContext(ctx, target.Method, target.URL, bytes.NewReader(job.Payload))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("User-Agent", userAgent)
	for name, value := range job.Headers {
		h.Set(name, value)
	}
	for name, value := range target.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", job.ContentType)
	h.Set(setting.HeaderID, job.ID)
	h.Set(setting.HeaderQueue, job.Queue)
	h.Set(setting.HeaderAttempt, strconv.Itoa(job.Attempt))
	h.Set(headerIdempotency, job.ID)
	if target.Signing != nil {
		// Jobs are granted tens of milliseconds ahead, which is nothing to a time in seconds that
		// receivers allow minutes for. Behind the gate it would cost the departure its precision.
		target.Signing.sign(h, job.ID, time.Now(), job.Payload)
	}
	return req, nil
}
