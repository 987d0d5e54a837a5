package api_test

import (
	"encoding/base64"
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

// Texts that readers of JSON, of paths and of names differ about.
func TestHostileTexts(t *testing.T) { attacked(t).attack(ofTexts()) }

func ofTexts() (list []hostile) {
	const v, limit = "/v1/queues/victim", "/v1/rules/victim.limit"
	lists, objects := strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 10_000)
	bad := func(name, raw, reason, field string) {
		list = append(list, hostile{name, raw, 400, reason, field, false})
	}
	for _, deep := range [][2]string{{"lists", lists}, {"objects", objects}, {
		"closed lists", lists + strings.Repeat("]", 20_000),
	}} {
		bad(deep[0]+" as a job", postTo(v+"/jobs", deep[1]), "invalid_json", "")
		bad(deep[0]+" as a payload", postTo(v+"/jobs", `{"payload":`+deep[1]+`}`), "invalid_json", "payload")
		bad(deep[0]+" as a header", postTo(v+"/jobs", `{"payload":1,"headers":{"a":`+deep[1]+`}}`), "invalid_json", "headers")
		bad(deep[0]+" as a spec", putTo(v, deep[1]), "invalid_field", "")
		bad(deep[0]+" as a target", putTo(v, `{"rate":"1/s","deliver":{"http":`+deep[1]+`}}`), "invalid_field", "")
		bad(deep[0]+" as a rule", putTo(limit, deep[1]), "invalid_field", "")
		bad(deep[0]+" as a quote", postTo(v+"/quote", `{"jobs":`+deep[1][:3000]+`}`), "invalid_json", "")
		bad(deep[0]+" as a decision", postTo(v+"/decide", deep[1][:4000]), "invalid_json", "")
		bad(deep[0]+" as leases", postTo(v+"/settle", `{"jobs":`+deep[1]+`}`), "invalid_json", "")
		bad(deep[0]+" as takes", postTo(limit+"/take", `{"takes":`+deep[1]+`}`), "invalid_json", "")
	}
	for _, path := range []string{
		v + "/pause", v + "/purge", v + "/rollback", v + "/leases", v + "/decide", v + "/replay", v + "/forget",
		v + "/settle", v + "/extend", v + "/quote", v + "/jobs/kept/decide", limit + "/take", limit + "/reset", v + "/jobs",
	} {
		bad("null to "+path, postTo(path, "null"), "invalid_json", "")
		bad("a blank to "+path, postTo(path, " "), "invalid_json", "")
		bad("two values to "+path, postTo(path, "{}{}"), "", "")
	}
	bad("null as a spec", putTo(v, "null"), "invalid_field", "")
	bad("null as a rule", putTo(limit, "null"), "invalid_field", "")

	for _, s := range [][2]string{
		{"a lone surrogate", `\ud800`},
		{"the wrong half", `\udc00`},
		{"half and half again", `\ud800\ud800`},
		{"no UTF-8", "\xff"},
		{"an overlong /", "\xc0\xaf"},
		{"a surrogate in UTF-8", "\xed\xa0\x80"},
		{"a bare newline", "\n"},
		{"an escape that is none", `\x41`},
	} {
		bad(s[0]+" as a reason", postTo(v+"/pause", `{"reason":"`+s[1]+`"}`), "invalid_json", "reason")
		bad(s[0]+" as a lane", postTo(v+"/jobs", `{"payload":1,"lane":"`+s[1]+`"}`), "invalid_json", "lane")
		bad(s[0]+" as a key", postTo(limit+"/take", `{"key":"`+s[1]+`"}`), "invalid_json", "key")
		bad(s[0]+" as a worker", postTo(v+"/leases", `{"worker":"`+s[1]+`"}`), "invalid_json", "worker")
		bad(s[0]+" in a payload", postTo(v+"/jobs", `{"payload":{"a":["`+s[1]+`"]}}`), "invalid_json", "payload.a.0")
	}
	bad("a mark before it", postTo(v+"/pause", "\xef\xbb\xbf{}"), "invalid_json", "")
	bad("UTF-16", postTo(v+"/pause", "\xff\xfe{\x00}\x00"), "invalid_json", "")
	bad("a name twice", postTo(v+"/pause", `{"reason":"a","reason":"b"}`), "duplicate_field", "reason")
	bad("a name twice, once escaped", postTo(v+"/jobs", `{"payload":1,"p\u0061yload":2}`), "duplicate_field", "payload")
	bad("a name in capitals", postTo(v+"/pause", `{"Reason":"a"}`), "unknown_field", "Reason")
	bad("a prototype", postTo(v+"/pause", `{"__proto__":{}}`), "unknown_field", "__proto__")
	bad("NaN", postTo(v+"/jobs", `{"payload":NaN}`), "invalid_json", "payload")
	bad("a comment", postTo(v+"/jobs", `{"payload":1/**/}`), "invalid_json", "")
	bad("a comma too many", postTo(v+"/pause", `{"reason":"a",}`), "invalid_json", "")
	bad("a number with a 0", postTo(v+"/jobs", `{"payload":1,"cost":01}`), "invalid_field", "cost")
	bad("a cost beyond 64 bits", postTo(v+"/jobs", `{"payload":1,"cost":18446744073709551617}`), "invalid_field", "cost")
	bad("base64 without padding", postTo(v+"/jobs", `{"payload_base64":"QQ"}`), "invalid_field", "payload_base64")
	bad("base64 of another alphabet", postTo(v+"/jobs", `{"payload_base64":"_-A="}`), "invalid_field", "payload_base64")

	for _, id := range []string{".", ".."} {
		bad("the id "+id, postTo(v+"/jobs", `{"payload":1,"id":"`+id+`"}`), "invalid_field", "id")
		bad("the key "+id, postTo(v+"/jobs", `{"payload":1}`, "Idempotency-Key: "+id), "invalid_field", "Idempotency-Key")
		list = append(list, hostile{"the path " + id, get(v + "/jobs/" + id), 404, "not_found", "", false},
			hostile{
				"the path of the code " + id, get(v + "/jobs/" + strings.ReplaceAll(id, ".", "%2e")), 404, "not_found", "", false,
			})
	}
	for _, path := range []string{
		"//v1/queues", "/v1//queues", "/v1/queues/../queues", "/v1/queues/victim/../victim/purge", "/v1/./queues",
		"/v1/queues/", "/%2fv1/queues", "/v1/queues%00", "/V1/queues", "/debug/pprof/", "/.git/config", "*",
	} {
		list = append(list, hostile{"the path " + path, request("POST", path, ""), 404, "not_found", "", false})
	}
	for _, method := range []string{"TRACE", "PATCH", "PROPFIND", "post", "OPTIONS"} {
		list = append(list, hostile{
			"the method " + method, request(method, v+"/purge", "", asJSON), 405, "method_not_allowed", "", false,
		})
	}
	list = append(list,
		hostile{"a queue of a slash", get("/v1/queues/victim%2fpurge"), 404, "unknown_queue", "", false},
		hostile{"a queue of a line", get("/v1/queues/a%0d%0aSet-Cookie:x"), 404, "unknown_queue", "", false},
		hostile{"an id of a line", get(v + "/jobs/a%0d%0ab"), 400, "invalid_field", "id", false},
		hostile{
			"base64 of deep JSON",
			postTo(
				"/v1/queues/none/jobs",
				`{"content_type":"application/json","payload_base64":"`+base64.StdEncoding.EncodeToString([]byte(lists))+`"}`,
			),
			404, "unknown_queue", "", false,
		},
	)
	return list
}

// A line that cannot be used says so, and the others go on.
func TestHostileLines(t *testing.T) {
	x := attacked(t)
	long := strings.Repeat("x", 2<<20)
	for name, c := range map[string][3]string{
		"deep":           {`{"payload":` + strings.Repeat("[", 100_000), `"status":400`, `"field":"payload"`},
		"deep objects":   {strings.Repeat(`{"a":`, 100_000), `"status":400`, "deeper than 64 levels"},
		"null":           {"null", `"status":400`, "invalid_json"},
		"a list":         {"[]", `"status":400`, "invalid_json"},
		"two":            {"{}{}", `"status":400`, ""},
		"a surrogate":    {`{"payload":1,"lane":"\ud800"}`, `"status":400`, `"field":"lane"`},
		"no UTF-8":       {"{\"payload\":\"\xff\"}", `"status":400`, `"field":"payload"`},
		"too long":       {`{"payload":"` + long + `"}`, `"status":413`, "too_large"},
		"too long blank": {strings.Repeat(" ", 2<<20), `"status":413`, "too_large"},
		"the id ..":      {`{"payload":1,"id":".."}`, `"status":400`, `"field":"id"`},
		"a NUL":          {"{\"payload\":1}\x00", `"status":400`, "invalid_json"},
	} {
		t.Run(name, func(t *testing.T) {
			raw := request("POST", "/v1/queues/victim/jobs", c[0]+"\n"+c[0]+"\n", asLines)
			status, _, text := x.send(raw)
			lines := strings.Split(strings.TrimSpace(text), "\n")
			if status != 200 || len(lines) != 2 {
				t.Fatalf("%d, %d lines: %.300s", status, len(lines), text)
			}
			for _, line := range lines {
				if !strings.Contains(line, c[1]) || !strings.Contains(line, c[2]) || len(line) > 1000 {
					t.Errorf("%.500s, want %s and %s", line, c[1], c[2])
				}
			}
			x.unharmed(t)
		})
	}
}
