package api_test

import (
	"encoding/base64"
	"strings"
	"testing"
)

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
