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
	firstPause     = 5 * time.Second // before spans are sent again, if the receiver does not say how long
	longestPause   = 30 * time.Second
	longestSending = time.Minute // of the same spans, again and again
	longestAnswer  = 4 << 10     // bytes of an answer that are read
)

// sender posts spans by OTLP over HTTP, as protobuf. OpenTelemetry's own client would link the stubs of gRPC: 3 MB.
type sender struct {
	client   *http.Client
	url      string
	headers  http.Header
	compress bool
}

// Start implements otlptrace.Client. Nothing is dialled.
func (s *sender) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (s *sender) Stop(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It tries until the receiver takes the spans or refuses them, or ctx ends.
func (s *sender) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// On the wire the same as ExportTraceServiceRequest, whose package has the stubs.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if s.compress {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(body) // a buffer takes all
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

// post sends spans once. If that fails, again is how long the receiver wants to be spared at least before they are
// sent again; negative if that is pointless.
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

// rejected is what an answer says of spans that were not taken though the others were; nil if all were. It reads
// ExportTraceServiceResponse, whose field 1 has their number as its field 1 and the reason as its field 2.
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
	return fmt.Errorf("the receiver rejected %d spans: %.200q", spans, reason)
}

// field is one of a message: a number, or bytes.
type field struct {
	number uint64
	bytes  []byte
}

// fieldsOf goes through the fields of a message that have a number, as far as it can be read.
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
