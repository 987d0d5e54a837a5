package api_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/queue"
)

func TestPostJob(t *testing.T) {
	f := serve(t, api.Options{})
	f.do(
		"POST", jobs, `{"payload": {"to": "a@example.com"}, "id": "a"}`,
	).want(t, 202, "id", "a", "state", "waiting", "position", 1,
		"eta", map[string]any{"at": "2026-05-04T03:02:01.123456Z", "exact": true})
	a := f.do("POST", jobs, `{"payload": {"to": "a@example.com"}, "id": "a"}`)
	a.want(t, 200, "id", "a", "state", "waiting", "position", 1)
	if a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("Idempotent-Replayed is %q, want true", a.header.Get("Idempotent-Replayed"))
	}
	f.do("POST", jobs, `{"payload": {"to": "b@example.com"}, "id": "a"}`).want(
		t, 409, "reason", "conflict", "id", "a", "status", 409,
	)
	// The same JSON with other spaces is another payload, and the answer says so.
	spaced := f.do("POST", jobs, `{"payload": {"to":"a@example.com"}, "id": "a"}`)
	spaced.want(t, 409, "reason", "conflict", "field", "id")
	if detail, _ := spaced.body["detail"].(string); !strings.Contains(detail, "byte by byte, including spaces") {
		t.Errorf("the detail is %q", detail)
	}
	made := f.do("POST", jobs, `{"payload": 1}`)
	made.want(t, 202)
	if id, _ := made.body["id"].(string); len(id) != 26 {
		t.Errorf("made id %q, want 26 characters", id)
	}
	f.do("POST", "/v1/queues/sms/jobs", `{"payload": 1, "id": "a"}`).want(t, 404, "reason", "unknown_queue", "id", "a")
	f.do("POST", jobs, `{"payload": 1}`, "Idempotency-Key", "k1").want(t, 202, "id", "k1")
	f.do("POST", jobs, `{"payload": 1}`, "Idempotency-Key", `"k1"`).want(t, 200, "id", "k1")
	f.do("POST", jobs, `{"payload": 1, "id": "k1"}`, "Idempotency-Key", `k1`).want(t, 200, "id", "k1")
}

func TestPostFull(t *testing.T) {
	f := serve(t, api.Options{})
	f.engine.queues["email"].info.Spec.Capacity = 0
	a := f.do("POST", jobs, `{"payload": 1, "id": "x"}`)
	a.want(t, 429, "reason", "full", "retry_after_ms", 1235, "id", "x")
	if got := a.header.Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After %s, want 2: 1.234567 s rounded up", got)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %s", got)
	}
}

// A payload reaches the engine byte for byte as it was sent.
func TestPayloadBytes(t *testing.T) {
	for _, payload := range []string{
		`{"n": 12345678901234567890.000, "e":1E400 ,"a":[],"o":{}}`, `{ "twice":1, "twice" : 2 }`, `"\u00e9\ud83d\ude00\/"`,
		`null`, `[ ]`, ` 1.0`, `""`, "{\n\t\"a\":\r\n1}",
		strings.Repeat("[", jsondepth.Max-1) + strings.Repeat("]", jsondepth.Max-1),
	} {
		f := serve(t, api.Options{})
		f.do("POST", jobs, `{"id":"a","payload":`+payload+`,"cost":3,"headers":{"X-A":"1","X-\u0042":"\u0032"}}`).want(t, 202)
		j := f.engine.queues["email"].jobs["a"]
		if string(j.Payload) != strings.TrimSpace(payload) {
			t.Errorf("payload %q, want %q", j.Payload, payload)
		}
		if j.Cost != 3 || len(j.Headers) != 2 || j.Headers["X-A"] != "1" || j.Headers["X-B"] != "2" ||
			j.ContentType != "application/json" {
			t.Errorf("job %+v", j)
		}
	}
	f := serve(t, api.Options{})
	f.do(
		"POST", jobs, `{"p\u0061yload_base64":"`+base64.StdEncoding.EncodeToString([]byte("\x00\xff\n"))+`","id":"a"}`,
	).want(t, 202)
	if j := f.engine.queues["email"].jobs["a"]; string(j.Payload) != "\x00\xff\n" ||
		j.ContentType != "application/octet-stream" {
		t.Errorf("job %q of %s", j.Payload, j.ContentType)
	}
	f.do("POST", jobs, `{"payload_base64":"AAAA","content_type":"image\/png","id":"b"}`).want(t, 202)
	if j := f.engine.queues["email"].jobs["b"]; j.ContentType != "image/png" {
		t.Errorf("content type %s", j.ContentType)
	}
	largest := `"` + strings.Repeat("x", queue.MaxPayloadBytes-2) + `"`
	f.do("POST", jobs, `{"payload":`+largest+`,"id":"c"}`).want(t, 202)
	if j := f.engine.queues["email"].jobs["c"]; string(j.Payload) != largest {
		t.Error("the largest payload was changed on its way")
	}
	all := base64.StdEncoding.EncodeToString(make([]byte, queue.MaxPayloadBytes))
	f.do("POST", jobs, `{"payload_base64":"`+all+`","id":"d"}`).want(t, 202)
}

func TestBadJobs(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	for _, c := range []struct {
		name, body string
		status     int
		reason     string
		field      any
		detail     string
	}{
		{"empty", "", 400, "invalid_json", nil, "is empty"},
		{"blank", " \n ", 400, "invalid_json", nil, "is empty"},
		{"not JSON", "hello", 400, "invalid_json", nil, "byte 0"},
		{"cut short", `{"payload": {"a": 1`, 400, "invalid_json", nil, "ends in the middle"},
		{"an array", `[]`, 400, "invalid_json", nil, "is an object"},
		{"two jobs", `{"payload":1}{"payload":2}`, 400, "invalid_json", nil, "ndjson"},
		{"behind it", `{"payload":1}x`, 400, "invalid_json", nil, "after"},
		{"bad inside", `{"payload":{"a":[1,{"b":tru}]}}`, 400, "invalid_json", "payload.a.1.b", "byte"},
		{"not UTF-8", "{\"payload\":\"\xff\"}", 400, "invalid_json", "payload", "UTF-8"},
		{
			"nested 100,000 deep", `{"payload":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, 400,
			"invalid_json", "payload", "is nested deeper than 64 levels, at byte ",
		},
		{
			"nested objects", `{"payload":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + `}`, 400,
			"invalid_json", "payload", "is nested deeper than 64 levels, at byte ",
		},
		{"unknown field", `{"payload":1,"paylaod":2}`, 400, "unknown_field", "paylaod", "payload_base64"},
		{"unknown field in capitals", `{"Payload":1}`, 400, "unknown_field", "Payload", "not a field"},
		{"long unknown field", `{"` + long + `":1}`, 400, "unknown_field", long[:80] + "...", "not a field"},
		{"control characters", `{"a\u0000":1}`, 400, "unknown_field", "a\x00", "not a field"},
		{
			"lane of 257 bytes", `{"payload":1,"lane":"` + strings.Repeat("k", 257) + `"}`, 400, "invalid_field", "lane",
			"has 257 bytes, the limit is 256",
		},
		{
			"lane of 129 letters of 2 bytes", `{"payload":1,"lane":"` + strings.Repeat("é", 129) + `"}`, 400, "invalid_field",
			"lane", "has 258 bytes",
		},
		{"lane that is not UTF-8", "{\"payload\":1,\"lane\":\"\xff\"}", 400, "invalid_json", "lane", "UTF-8"},
		{"lane of half a character", `{"payload":1,"lane":"\ud800"}`, 400, "invalid_json", "lane", "surrogate"},
		{"lane empty", `{"payload":1,"lane":""}`, 400, "invalid_field", "lane", "omit it"},
		{"lane null", `{"payload":1,"lane":null}`, 400, "invalid_field", "lane", "must be a string"},
		{"lane a number", `{"payload":1,"lane":7}`, 400, "invalid_field", "lane", "must be a string"},
		{"lane twice", `{"payload":1,"lane":"a","lane":"a"}`, 400, "duplicate_field", "lane", "twice"},
		{
			"priority -1", `{"payload":1,"priority":-1}`, 400, "invalid_field", "priority",
			"is -1, must be a whole number from 0 to 9",
		},
		{"priority 10", `{"payload":1,"priority":10}`, 400, "invalid_field", "priority", "is 10, must be"},
		{"priority 1.0", `{"payload":1,"priority":1.0}`, 400, "invalid_field", "priority", "is 1.0, must be"},
		{
			"priority of 30 digits", `{"payload":1,"priority":` + strings.Repeat("9", 30) + `}`, 400, "invalid_field",
			"priority", "from 0 to 9",
		},
		{"priority as text", `{"payload":1,"priority":"high"}`, 400, "invalid_field", "priority", "whole"},
		{"priority null", `{"payload":1,"priority":null}`, 400, "invalid_field", "priority", "whole"},
		{
			"not_before that is no time", `{"payload":1,"not_before":"tomorrow"}`, 400, "invalid_field", "not_before",
			"is tomorrow, must be an instant such as",
		},
		{
			"not_before without a zone", `{"payload":1,"not_before":"2026-12-02T15:04:05"}`, 400, "invalid_field", "not_before",
			"is 2026-12-02T15:04:05, which has no time zone",
		},
		{
			"not_before in seconds", `{"payload":1,"not_before":4102444800}`, 400, "invalid_field", "not_before",
			"must be a string",
		},
		{"not_before empty", `{"payload":1,"not_before":""}`, 400, "invalid_field", "not_before", "omit it to start " +
			"immediately"},
		{
			"not_before in the year 1", `{"payload":1,"not_before":"0001-01-01T00:00:00Z"}`, 400, "invalid_field", "not_before",
			"2000 and 2200",
		},
		{
			"not_before in the year 2200", `{"payload":1,"not_before":"2200-01-01T00:00:00Z"}`, 400, "invalid_field",
			"not_before", "2000 and 2200",
		},
		{
			"expires_at at not_before", `{"payload":1,"not_before":"2100-01-01T00:00:00Z","expires_at":"2100-01-01T00:00:00Z"}`,
			400, "invalid_field", "expires_at", "must be after not_before",
		},
		{
			"expires_at that is no time", `{"payload":1,"expires_at":"soon"}`, 400, "invalid_field", "expires_at",
			"is soon, must be an instant such as",
		},
		{
			"expires_at without a zone", `{"payload":1,"expires_at":"2100-01-02T15:04:05.5"}`, 400, "invalid_field",
			"expires_at", "no time zone",
		},
		{
			"expires_at that is a day", `{"payload":1,"expires_at":"2100-01-02"}`, 400, "invalid_field", "expires_at",
			"must be an instant",
		},
		{
			"expires_at on no day", `{"payload":1,"expires_at":"2100-02-30T00:00:00Z"}`, 400, "invalid_field", "expires_at",
			"must be an instant",
		},
		{
			"expires_at with a space", `{"payload":1,"expires_at":"2100-01-02 15:04:05Z"}`, 400, "invalid_field", "expires_at",
			"must be an instant",
		},
		{
			"expires_at in seconds", `{"payload":1,"expires_at":4102444800}`, 400, "invalid_field", "expires_at",
			"must be a string",
		},
		{"expires_at null", `{"payload":1,"expires_at":null}`, 400, "invalid_field", "expires_at", "must be a string"},
		{"expires_at empty", `{"payload":1,"expires_at":""}`, 400, "invalid_field", "expires_at", "omit it"},
		{
			"expires_at in the year 1", `{"payload":1,"expires_at":"0001-01-01T00:00:00Z"}`, 400, "invalid_field", "expires_at",
			"2000 and 2200",
		},
		{
			"expires_at in the year 1999", `{"payload":1,"expires_at":"1999-12-31T23:59:59Z"}`, 400, "invalid_field",
			"expires_at", "2000 and 2200",
		},
		{
			"expires_at in the year 2200", `{"payload":1,"expires_at":"2200-01-01T00:00:00Z"}`, 400, "invalid_field",
			"expires_at", "2000 and 2200",
		},
		{
			"expires_at of 1 MB", `{"payload":1,"expires_at":"` + long + `"}`, 400, "invalid_field", "expires_at",
			"must be an instant",
		},
		{
			"expires_at twice", `{"payload":1,"expires_at":"2100-01-01T00:00:00Z","expires_at":"2100-01-01T00:00:00Z"}`, 400,
			"duplicate_field", "expires_at", "twice",
		},
		{
			"overflow neither", `{"payload":1,"overflow":"Defer"}`, 400, "invalid_field", "overflow",
			`is "Defer", must be reject or defer`,
		},
		{"overflow empty", `{"payload":1,"overflow":""}`, 400, "invalid_field", "overflow", "must be reject or defer"},
		{"overflow true", `{"payload":1,"overflow":true}`, 400, "invalid_field", "overflow", "must be a string"},
		{"overflow null", `{"payload":1,"overflow":null}`, 400, "invalid_field", "overflow", "must be a string"},
		{"overflow of 1 MB", `{"payload":1,"overflow":"` + long + `"}`, 400, "invalid_field", "overflow", "1048576 bytes"},
		{
			"overflow twice", `{"payload":1,"overflow":"reject","overflow":"reject"}`, 400, "duplicate_field", "overflow",
			"twice",
		},
		{"overflow without one", `{"payload":1,"overflow":"defer"}`, 422, "no_overflow", "overflow", "start it with --nats"},
		{"queue", `{"payload":1,"queue":"email"}`, 400, "unknown_field", "queue", "URL"},
		{"payload twice", `{"payload":1,"payload":1}`, 400, "duplicate_field", "payload", "twice"},
		{"twice with escapes", `{"payload":1,"p\u0061yload":1}`, 400, "duplicate_field", "payload", "twice"},
		{"id twice", `{"payload":1,"id":"a","id":"a"}`, 400, "duplicate_field", "id", "twice"},
		{"header twice", `{"payload":1,"headers":{"a":"1","a":"2"}}`, 400, "duplicate_field", "headers.a", "twice"},
		{"no payload", `{"id":"a"}`, 400, "invalid_field", "payload", "missing"},
		{"both payloads", `{"payload":1,"payload_base64":"AAAA"}`, 400, "invalid_field", "payload_base64", "together"},
		{"bad base64", `{"payload_base64":"A"}`, 400, "invalid_field", "payload_base64", "base64"},
		{"base64 of a number", `{"payload_base64":1}`, 400, "invalid_field", "payload_base64", "string"},
		{"empty id", `{"payload":1,"id":""}`, 400, "invalid_field", "id", "empty"},
		{"null id", `{"payload":1,"id":null}`, 400, "invalid_field", "id", "string"},
		{"id of 1 MB", `{"payload":1,"id":"` + long + `"}`, 400, "invalid_field", "id", "1048576 bytes"},
		{"id with a space", `{"payload":1,"id":"a b"}`, 400, "invalid_field", "id", "visible"},
		{"empty content type", `{"payload":1,"content_type":""}`, 400, "invalid_field", "content_type", "empty"},
		{
			"content type with a line", `{"payload":1,"content_type":"a\nb"}`, 400, "invalid_field", "content_type", "printable",
		},
		{"cost 0", `{"payload":1,"cost":0}`, 400, "invalid_field", "cost", "from 1 to 1000"},
		{"cost 1001", `{"payload":1,"cost":1001}`, 400, "invalid_field", "cost", "from 1 to 1000"},
		{"cost 1.5", `{"payload":1,"cost":1.5}`, 400, "invalid_field", "cost", "whole"},
		{"cost as text", `{"payload":1,"cost":"1"}`, 400, "invalid_field", "cost", "whole"},
		{"headers as text", `{"payload":1,"headers":"a"}`, 400, "invalid_field", "headers", "object"},
		{"header number", `{"payload":1,"headers":{"a":1}}`, 400, "invalid_field", "headers.a", "string"},
		{
			"header that frames", `{"payload":1,"headers":{"Transfer-Encoding":"chunked"}}`, 400, "invalid_field",
			"headers.Transfer-Encoding", "target",
		},
		{"header injection", `{"payload":1,"headers":{"a":"b\r\nc: d"}}`, 400, "invalid_field", "headers.a", "control"},
		{"header name", `{"payload":1,"headers":{"a b":"c"}}`, 400, "invalid_field", "headers", "not a header name"},
		{"33 headers", `{"payload":1,"headers":{` + manyHeaders(33) + `}}`, 400, "invalid_field", "headers", "32"},
		{"payload over the limit", `{"payload":"` + long + `"}`, 413, "too_large", "payload", "1048576"},
		{"body over the limit", `{"payload":"` + long + long + `"}`, 413, "too_large", nil, "1572864"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := serve(t, api.Options{})
			a := f.do("POST", jobs, c.body, "Content-Type", "application/json")
			a.want(t, c.status, "reason", c.reason, "field", c.field, "status", c.status)
			if detail, _ := a.body["detail"].(string); !strings.Contains(detail, c.detail) || len(detail) > 400 {
				t.Errorf("detail %.500q does not say %q, or too much", detail, c.detail)
			}
			if len(f.engine.queues["email"].ids) != 0 {
				t.Error("a refused job was taken in")
			}
		})
	}
}

func manyHeaders(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"h%d":"x"`, i))
	}
	return strings.Join(list, ",")
}

func TestBadRequests(t *testing.T) {
	f := serve(t, api.Options{})
	good := `{"payload":1}`
	f.do("POST", jobs, good, "Content-Type", "text/plain").want(t, 415, "reason", "unsupported_media_type")
	f.do("POST", jobs, good, "Content-Type", "application/json; charset=utf-8").want(t, 202)
	f.do("POST", jobs, good, "Content-Encoding", "gzip").want(t, 415)
	f.do("POST", jobs, `{"payload":1,"id":"a"}`, "Idempotency-Key", "b").want(
		t, 400, "reason", "invalid_request", "field", "Idempotency-Key",
	)
	f.do("POST", jobs, good, "Idempotency-Key", "a", "Idempotency-Key", "a").want(t, 400, "field", "Idempotency-Key")
	for _, empty := range []string{"", " ", `""`} {
		for _, body := range []string{good, `{"payload":1,"id":"a"}`} {
			f.do("POST", jobs, body, "Idempotency-Key", empty).want(t, 400, "reason", "invalid_request", "field",
				"Idempotency-Key", "detail",
				"the header Idempotency-Key is empty; give the job's id in it, 1 to 128 visible ASCII characters, or omit the "+
					"header "+
					"to get a new id")
		}
	}
	f.do(
		"POST", jobs, good, "Content-Type", "application/x-ndjson", "Idempotency-Key", "",
	).want(t, 400, "field", "Idempotency-Key")
	f.do("POST", jobs, good, "Idempotency-Key", strings.Repeat("x", 4096)).want(t, 400, "field", "Idempotency-Key")
	f.do(
		"POST", jobs, good, "Content-Type", "application/x-ndjson", "Idempotency-Key", "a",
	).want(t, 400, "field", "Idempotency-Key")
	// the path is repeated in the answer, which is JSON all the same
	f.do("GET", "/%ff%fe", "").want(t, 404, "reason", "not_found")
	f.do("POST", jobs, good, "Content-Type", "text/pl\xffin").want(t, 415)
	f.do("PATCH", jobs, "").want(t, 405, "reason", "method_not_allowed")
	f.do("POST", "/v1/queue/email/jobs", good).want(t, 404, "reason", "not_found")
	f.do("POST", "/v1/queues//jobs", good).want(t, 404, "reason", "not_found")
	f.do("POST", "/v1/queues/../queues/email/jobs", good).want(t, 404, "reason", "not_found")
	for _, name := range []string{
		"%7B%7D", "a:b", "a%2Fb", "a..b", "a.b.c", "a%20b", "a%00b", "a%0Ab", "A", "%FF", ".a", "a.", "-a",
		strings.Repeat("a", 65), strings.Repeat("a", 100_000),
	} {
		f.do("POST", "/v1/queues/"+name+"/jobs", good).want(t, 400, "reason", "invalid_field", "field", "queue")
		f.do("PUT", "/v1/queues/"+name, `{"rate":"1/s"}`).want(t, 400, "reason", "invalid_field", "field", "name")
	}
}

func TestStoreTrouble(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		reason string
		retry  string
	}{
		{queue.ErrUnavailable, 503, "unavailable", "1"},
		{queue.ErrNoStore, 503, "no_store", "5"},
		{queue.ErrStoreFull, 503, "store_full", "5"},
		{queue.ErrOutcomeUnknown, 504, "outcome_unknown", "1"},
		{queue.ErrClosed, 503, "stopping", "1"},
		{queue.ErrCorrupt, 500, "internal", ""},
		{io.ErrNoProgress, 500, "internal", ""},
	} {
		f := serve(t, api.Options{})
		f.engine.fail(fmt.Errorf("redis 10.0.0.1: %w", c.err))
		a := f.do("POST", jobs, `{"payload":1}`)
		a.want(t, c.status, "reason", c.reason)
		if id, _ := a.body["id"].(string); len(id) != 26 {
			t.Errorf("%v: the id that was made is not in the answer: %s", c.err, a.text)
		}
		if a.header.Get("Retry-After") != c.retry {
			t.Errorf("%v: Retry-After %q, want %q", c.err, a.header.Get("Retry-After"), c.retry)
		}
		if strings.Contains(a.text, "10.0.0.1") {
			t.Errorf("the answer tells of the inside: %s", a.text)
		}
		f.do("GET", "/v1/queues/email", "").want(t, c.status, "reason", c.reason)
		f.do("GET", "/v1/queues", "").want(t, c.status, "reason", c.reason)
		f.do("GET", "/v1/drainers", "").want(t, c.status, "reason", c.reason)
		f.do("GET", jobs+"/x", "").want(t, c.status, "reason", c.reason)
		f.do("PUT", "/v1/queues/email", `{"rate":"1/s"}`).want(t, c.status, "reason", c.reason)
		f.do("DELETE", "/v1/queues/email", "").want(t, c.status, "reason", c.reason)
		f.do("POST", jobs+"/x/cancel", "").want(t, c.status, "reason", c.reason, "id", "x")
		f.do("POST", "/v1/queues/email/pause", "").want(t, c.status, "reason", c.reason)
		f.do("POST", "/v1/queues/email/resume", "").want(t, c.status, "reason", c.reason)
		f.do("POST", jobs, `{"payload":1}`, "Content-Type", "application/x-ndjson").want(t, c.status, "reason", c.reason)
		f.do("GET", "/readyz", "").want(t, 503, "reason", "not_ready")
		f.do("GET", "/healthz", "").want(t, 200, "status", "ok")
	}
}
