package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/deliver/httptarget"
)

const (
	firstPause     = 5 * time.Second // before the first retry, unless the collector asks for more
	longestPause   = 30 * time.Second
	longestSending = time.Minute // for the same spans, with retries
	longestAnswer  = 4 << 10     // bytes read of an answer
)

// sender posts spans with OTLP over HTTP, as protobuf. OpenTelemetry's own client would add 3 MB of gRPC stubs.
type sender struct {
	client   *http.Client
	url      string
	headers  http.Header
	compress bool
}

// Start implements otlptrace.Client. It does not dial.
func (s *sender) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (s *sender) Stop(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It retries until the collector accepts or refuses the spans, or ctx ends.
func (s *sender) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData has the same encoding as ExportTraceServiceRequest, whose package contains the stubs.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if s.compress {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(body) // writing to a buffer does not fail
		_ = w.Close()
		body = packed.Bytes()
	}
	ctx, cancel := context.WithTimeout(ctx, longestSending)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		again, err := s.post(ctx, body)
		if err == nil || again < 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(again, pause)):
		}
	}
}

// post sends spans once. After a failure, again is the minimum delay before a retry, or negative if a retry is
// pointless.
func (s *sender) post(ctx context.Context, body []byte) (again time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	req.Header = s.headers.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	if s.compress {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return -1, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, longestAnswer))
	if err != nil {
		return -1, err
	}
	if res.StatusCode/100 == 2 {
		return -1, rejected(answer)
	}
	err = fmt.Errorf("%s answers %s: %.200q", req.URL.Redacted(), res.Status, strings.TrimSpace(string(answer)))
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		wait, _ := httptarget.RetryAfter(res.Header, time.Now())
		return wait.For, err
	}
	return -1, err
}

// rejected returns an error if the collector rejected some of the spans. It decodes ExportTraceServiceResponse, whose
// field 1 contains the number of rejected spans as field 1 and the reason as field 2.
func rejected(answer []byte) error {
	var spans uint64
	var reason string
	for partial := range fieldsOf(answer, 1) {
		for n := range fieldsOf(partial.bytes, 1) {
			spans = n.number
		}
		for text := range fieldsOf(partial.bytes, 2) {
			reason = string(text.bytes)
		}
	}
	if spans == 0 && reason == "" {
		return nil
	}
	return fmt.Errorf("the collector rejected %d spans: %.200q", spans, reason)
}

// field is a protobuf field: a number or bytes.
type field struct {
	number uint64
	bytes  []byte
}

// fieldsOf iterates over the fields of a message with the given number. It stops at invalid data.
func fieldsOf(message []byte, want protowire.Number) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		for len(message) > 0 {
			number, kind, n := protowire.ConsumeTag(message)
			if n < 0 {
				return
			}
			message = message[n:]
			n = protowire.ConsumeFieldValue(number, kind, message)
			if n < 0 {
				return
			}
			var f field
			switch kind {
			case protowire.VarintType:
				f.number, _ = protowire.ConsumeVarint(message)
			case protowire.BytesType:
				f.bytes, _ = protowire.ConsumeBytes(message)
			}
			if number == want && !yield(f) {
				return
			}
			message = message[n:]
		}
	}
}
