package tracing

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/internal/ops"
)

// receiving is an http.RoundTripper that answers requests itself.
type receiving func(*http.Request) answer

type answer struct {
	status     int
	body       string
	retryAfter string
}

func (f receiving) RoundTrip(r *http.Request) (*http.Response, error) {
	a := f(r)
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprint(a.status, " ", http.StatusText(a.status)),
		Header: http.Header{"Retry-After": {a.retryAfter}}, Body: io.NopCloser(strings.NewReader(a.body)),
	}, nil
}

func TestSenderFollowsEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-other=1")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization=Basic%20abc=, x-team = mail")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1500")
	s, err := newSender()
	if err != nil || s.client.Timeout != 1500*time.Millisecond {
		t.Fatal(err)
	}
	sent := []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{Name: "send q"}}}}}}
	s.client.Transport = receiving(func(r *http.Request) answer {
		h := r.Header
		if r.URL.String() != "http://collector:4318/base/v1/traces" || h.Get("Authorization") != "Basic abc=" ||
			h.Get("X-Team") != "mail" || h.Get("X-Other") != "" || h.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %v", r.URL, h)
		}
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(unpacked)
		var got tracepb.TracesData
		if err := proto.Unmarshal(body, &got); err != nil || got.ResourceSpans[0].ScopeSpans[0].Spans[0].Name != "send q" {
			t.Errorf("%v, %v", &got, err)
		}
		return answer{status: 200}
	})
	if err := s.UploadTraces(t.Context(), sent); err != nil {
		t.Error(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector/as/it/is")
	if s, err := newSender(); err != nil || s.url != "https://collector/as/it/is" {
		t.Errorf("%v, %v", s, err)
	}
}

func TestSenderRetries(t *testing.T) {
	ok, refused := answer{status: 200}, "400 Bad Request: \"no\""
	for name, c := range map[string]struct {
		answers []answer
		took    time.Duration
		fails   string
	}{
		"taken":              {[]answer{ok}, 0, ""},
		"refused":            {[]answer{{400, "no", ""}}, 0, refused},
		"away, then back":    {[]answer{{503, "", ""}, {502, "", ""}, ok}, 15 * time.Second, ""},
		"wants to be spared": {[]answer{{429, "", "20"}, ok}, 20 * time.Second, ""},
		"says nonsense":      {[]answer{{429, "", "-9"}, ok}, 5 * time.Second, ""},
		"says when": {
			[]answer{{429, "", "Sat, 01 Jan 2000 00:00:20 GMT"}, ok}, 20 * time.Second, "", // the bubble begins at 0 s
		},
		"never wants more": {[]answer{{429, "no", "99999999999999999999"}}, time.Minute, "no"},
		"away for long": {
			[]answer{{503, "", ""}, {503, "", ""}, {503, "", ""}, {503, "gone", ""}}, time.Minute, "gone",
		},
		"some are rejected": {[]answer{{200, "\x0a\x06\x08\x03\x12\x02no", ""}}, 0, `rejected 3 spans: "no"`},
		"warns":             {[]answer{{200, "\x0a\x04\x12\x02no", ""}}, 0, `rejected 0 spans: "no"`},
		"none are rejected": {[]answer{{200, "\x0a\x02\x08\x00", ""}}, 0, ""},
		"answers nonsense":  {[]answer{{200, "\x0a\xff<html>", ""}}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				n := 0
				s := &sender{url: "http://collector/v1/traces", client: &http.Client{
					Transport: receiving(func(r *http.Request) answer {
						_, _ = io.Copy(io.Discard, r.Body)
						n++
						return c.answers[n-1]
					}),
				}, headers: http.Header{}}
				begin := time.Now()
				err := s.UploadTraces(ctx, nil)
				if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want %q", err, c.fails)
				}
				if took := time.Since(begin); took != c.took || n != len(c.answers) {
					t.Errorf("%d requests in %v, want %d in %v", n, took, len(c.answers), c.took)
				}
			})
		})
	}
}

func TestSenderRefuses(t *testing.T) {
	for name, value := range map[string]string{
		"TIMEOUT": "10s", "TRACES_TIMEOUT": "0", "COMPRESSION": "zstd", "HEADERS": "secret", "TRACES_HEADERS": "a=%zz",
		"CERTIFICATE": "/nowhere", "CLIENT_CERTIFICATE": "/nowhere", "CLIENT_KEY": "/nowhere",
		"TRACES_CERTIFICATE": "/dev/null",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			_, err := newSender()
			if !ops.IsMisuse(err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
		})
	}
	if s, err := newSender(); err != nil || s.url != "http://localhost:4318/v1/traces" {
		t.Errorf("by default: %v, %v", s, err)
	}
}
