package api_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// hidden is a request that must never be taken for one: it would do harm.
const hidden = "DELETE /v1/queues/victim?force=true HTTP/1.1\r\nHost: localhost\r\n\r\n"

// Where a proxy in front and the server could differ about the end of a request, nothing behind it is read.
func TestHostileSmuggling(t *testing.T) { attacked(t).attack(smuggled()) }

func smuggled() []hostile {
	const to = "POST /v1/queues/victim/quote HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	return []hostile{
		{
			"CL.TE", to + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 400, "invalid_json", "",
			true,
		},
		{
			"CL.TE with a body",
			to + fmt.Sprintf(
				"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n", 15+len(hidden),
			) + "a\r\n{\"jobs\":1}\r\n0\r\n\r\n" + hidden,
			200, "", "", true,
		},
		{
			"TE.CL",
			to + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n" + fmt.Sprintf(
				"%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden,
			),
			400, "invalid_json", "", true,
		},
		{
			"CL.TE to a stream",
			"POST /v1/queues/none/jobs HTTP/1.1\r\nHost: localhost\r\n" + asLines +
				"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
			404, "unknown_queue", "", true,
		},
		{"chunks alone", to + "Transfer-Encoding: chunked\r\n\r\na\r\n{\"jobs\":1}\r\n0\r\n\r\n" + hidden, 200, "", "", true},
		{
			"chunks to nothing",
			"POST /nothing HTTP/1.1\r\nHost: localhost\r\n" + asJSON + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
				hidden,
			404, "not_found", "", true,
		},
		{
			"chunks of a GET",
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + asJSON + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
			200, "", "", true,
		},
		{
			"two lengths", to + "Content-Length: 10\r\nContent-Length: 11\r\n\r\n{\"jobs\":1}" + hidden, 400,
			"malformed_request", "", true,
		},
		{
			"two lengths in one", to + "Content-Length: 10, 10\r\n\r\n{\"jobs\":1}" + hidden, 400, "malformed_request", "", true,
		},
		{"a length below 0", to + "Content-Length: -1\r\n\r\n" + hidden, 400, "malformed_request", "", true},
		{"a length with a sign", to + "Content-Length: +10\r\n\r\n{\"jobs\":1}" + hidden, 400, "malformed_request", "", true},
		{
			"a length in hexadecimal", to + "Content-Length: 0xa\r\n\r\n{\"jobs\":1}" + hidden, 400, "malformed_request", "",
			true,
		},
		{
			"a length of 20 digits", to + "Content-Length: 99999999999999999999\r\n\r\n" + hidden, 400, "malformed_request", "",
			true,
		},
		{"an empty length", to + "Content-Length:\r\n\r\n" + hidden, 400, "malformed_request", "", true},
		{
			"a space before the colon", to + "Content-Length : 10\r\n\r\n{\"jobs\":1}" + hidden, 400, "malformed_request", "",
			true,
		},
		{"a folded header", to + "X: a\r\n Content-Length: 10\r\n\r\n", 400, "invalid_json", "", false},
		{
			"a header that begins with a space", "POST /v1/queues/victim/quote HTTP/1.1\r\n Host: localhost\r\n\r\n" + hidden,
			400, "malformed_request", "", true,
		},
		{"a header without a colon", to + "Transfer-Encoding chunked\r\n\r\n" + hidden, 400, "malformed_request", "", true},
		{"a header without a name", to + ": x\r\n\r\n" + hidden, 400, "malformed_request", "", true},
		{"a header of a NUL", to + "X: a\x00b\r\n\r\n" + hidden, 400, "malformed_request", "", true},
		{
			"a header with a bare CR", to + "X: a\rTransfer-Encoding: chunked\r\n\r\n" + hidden, 400, "malformed_request", "",
			true,
		},
		{"a name with a bracket", to + "X[]: a\r\n\r\n" + hidden, 400, "malformed_request", "", true},
		{"gzip, chunked", to + "Transfer-Encoding: gzip, chunked\r\n\r\n" + hidden, 501, "transfer_coding", "", true},
		{
			"chunked, identity", to + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + hidden, 501, "transfer_coding",
			"", true,
		},
		{"identity", to + "Transfer-Encoding: identity\r\n\r\n" + hidden, 501, "transfer_coding", "", true},
		{
			"chunked twice", to + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 501,
			"transfer_coding", "", true,
		},
		{"xchunked", to + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, 501, "transfer_coding", "", true},
		{
			"chunked behind a control character", to + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + hidden, 400,
			"malformed_request", "", true,
		},
		{
			"chunked in HTTP/1.0",
			strings.Replace(to, "HTTP/1.1", "HTTP/1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 400,
			"invalid_json", "", true,
		},
		{
			"a size that is none", to + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n" + hidden, 400,
			"body_incomplete", "", true,
		},
		{
			"a size below 0", to + "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n" + hidden, 400, "body_incomplete",
			"", true,
		},
		{
			"a size of 17 digits", to + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n{}\r\n0\r\n\r\n" + hidden, 400,
			"body_incomplete", "", true,
		},
		{
			"a chunk without its end", to + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n" + hidden, 400,
			"body_incomplete", "", true,
		},
		{
			"an extension of 20 KB",
			to + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 20_000) + "\r\n{}\r\n0\r\n\r\n" + hidden, 400,
			"body_incomplete", "", true,
		},
		{
			"a trailer",
			to + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\na\r\n{\"jobs\":1}\r\n0\r\nContent-Length: " +
				"5\r\n\r\n" + hidden,
			400, "malformed_request", "", true,
		},
		{
			"an upgrade",
			to + "Content-Length: 0\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: " +
				"AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
			400, "invalid_json", "", false,
		},
		{"a preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, 415, "unsupported_media_type", "", true},
		{
			"expecting something else", to + "Expect: 200-ok\r\nContent-Length: 10\r\n\r\n{\"jobs\":1}" + hidden, 417,
			"expectation_failed", "", true,
		},
		{"HTTP/0.9", "GET /v1/queues\r\n" + hidden, 400, "malformed_request", "", true},
		{"HTTP/2 in a line", "GET /v1/queues HTTP/2.0\r\nHost: localhost\r\n\r\n" + hidden, 505, "http_version", "", true},
		{
			"HTTP/1.2 is one of 1", "GET /healthz HTTP/1.2\r\nHost: localhost\r\nConnection: close\r\n\r\n" + hidden, 200, "",
			"", true,
		},
		{"HTTP/3.0", "GET /healthz HTTP/3.0\r\nHost: localhost\r\n\r\n" + hidden, 505, "http_version", "", true},
		{"no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" + hidden, 400, "malformed_request", "", true},
		{
			"a method with a space", "PO ST /v1/queues HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden, 400, "malformed_request",
			"", true,
		},
		{
			"a path with a space", "GET /v1/que ues HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden, 400, "malformed_request", "",
			true,
		},
		{
			"a path that is half a code", "GET /v1/queues/%4 HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden, 400,
			"malformed_request", "", true,
		},
		{
			"a path of a tab", "GET /v1/\tqueues HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden, 400, "malformed_request", "",
			true,
		},
	}
}

// What is too large is refused before it costs, and what is slow, or never ends, loses its connection.
func TestHostileSizes(t *testing.T) {
	x := attacked(t)
	const v = "/v1/queues/victim"
	big := strings.Repeat("x", 2<<20)
	x.attack([]hostile{
		{"a header of 64 KiB", get("/healthz", "X: "+big[:64<<10]), 431, "header_too_large", "", true},
		{"a line of 64 KiB", get("/" + big[:64<<10]), 431, "header_too_large", "", true},
		{
			"5,000 headers", get("/healthz", strings.TrimSuffix(strings.Repeat("X: a\r\n", 5000), "\r\n")), 431,
			"header_too_large", "", true,
		},
		{"a body that says 1 TB", postTo(v+"/jobs", "{", "Content-Length: 1000000000000"), 413, "too_large", "", true},
		{"a body of 2 MiB", postTo(v+"/jobs", `{"payload":"`+big+`"}`), 413, "too_large", "", true},
		{"a pause of 64 KiB", postTo(v+"/pause", `{"reason":"`+big[:64<<10]+`"}`), 413, "too_large", "", false},
		{"a spec of 256 KiB", putTo(v, `{"rate":"1/s","name":"`+big[:256<<10]+`"}`), 413, "too_large", "", true},
		{
			"2 MiB in chunks",
			request(
				"POST", v+"/quote", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(big), big), asJSON, "Transfer-Encoding: chunked",
			),
			413, "too_large", "", true,
		},
		{"a path of 10 KB", get(v + "/jobs/" + big[:10_000]), 400, "invalid_field", "id", false},
		{"a name of 10 KB", get("/v1/queues/" + big[:10_000]), 404, "unknown_queue", "", false},
		{
			"a key of 10 KB", postTo(v+"/jobs", `{"payload":1}`, "Idempotency-Key: "+big[:10_000]), 400, "invalid_field",
			"Idempotency-Key", false,
		},
		{
			"a By of 10 KB", postTo(v+"/resume", "", "Penstock-By: "+big[:10_000]), 400, "invalid_request", "Penstock-By", false,
		},
	})
	x.slow()
}

// slow are clients that would wear a server down by waiting. Its limits are some seconds here, so that a busy machine
// reads what does come; all wait at the same time.
func (x *victim) slow() {
	const v, limit = "/v1/queues/victim", 3 * time.Second
	x.listen(limit)
	for name, c := range map[string]struct {
		raw    string
		status int
		reason string
	}{
		"nothing":       {"", 0, ""},
		"half a line":   {"GET /v1/que", 400, "malformed_request"},
		"half a header": {"GET /healthz HTTP/1.1\r\nHost: local", 0, ""},
		"no end of it":  {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", 0, ""},
		"no body":       {postTo(v+"/quote", "", "Content-Length: 10"), 408, "body_timeout"},
		"half a body":   {postTo(v+"/quote", `{"jo`, "Content-Length: 10"), 408, "body_timeout"},
		"half a chunk": {
			request("POST", v+"/quote", "a\r\n{\"jo", asJSON, "Transfer-Encoding: chunked"), 408, "body_timeout",
		},
		"half a size": {
			request("POST", v+"/quote", "1", asJSON, "Transfer-Encoding: chunked"), 408, "body_timeout",
		},
		"half a line of JSON": {
			request("POST", v+"/jobs", `{"pay`, asLines, "Content-Length: 100"), 200, "body_timeout",
		},
		"a body that is not wanted": {
			request("POST", v+"/jobs", "", "Content-Type: text/plain", "Content-Length: 1000000"), 415, "unsupported_media_type",
		},
	} {
		x.t.Run("slow: "+name, func(t *testing.T) {
			t.Parallel()
			conn, in := x.dial()
			defer conn.Close()
			_, _ = io.WriteString(conn, c.raw)
			began := time.Now()
			status, _, text := answerOf(c.raw, in)
			if status != c.status || !strings.Contains(text, c.reason) {
				t.Errorf("%d %.300s, want %d %s", status, text, c.status, c.reason)
			}
			if rest, _ := io.ReadAll(in); len(rest) > 0 || time.Since(began) > 15*time.Second {
				t.Errorf("after %s: %.100q", time.Since(began), rest)
			}
			x.unharmed(t)
		})
	}
}
