package api_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue/boltq"
)

// A name that is not this server's is that of a page that had it lead here: nothing is told and nothing done.
func TestHostileHosts(t *testing.T) {
	x := attacked(t, "Penstock.Example.com", "ingress-1")
	var list []hostile
	for _, host := range []string{
		"attacker.example", "attacker.example:8080", "ATTACKER.EXAMPLE", "localhost.attacker.example",
		"127.0.0.1.attacker.example", "127.0.0.1.nip.io",
		"attacker.localhost", "localhost.localdomain", "localhost..", "penstock.example.com.attacker.example",
		"xpenstock.example.com", "example.com", "ingress-2",
		"127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.", "127.0.0.1:80:80", "127.0.0.1:x",
		"localhost:8080x", "::1", "[::1", "::1]",
		"[localhost]", "[127.0.0.1]", "[::1].attacker.example", "[]", ".", ":", ":8080", "*", "localhost,attacker.example",
		"localhost;x", "attacker.example%00.localhost",
	} {
		list = append(list, hostile{"reads by " + host, get("/v1/queues", "Host: "+host), 421, "misdirected", "Host", false})
	}
	for path, raw := range map[string]string{
		"purge": postTo("/v1/queues/victim/purge", "", "Host: attacker.example"), "pause": postTo(
			"/v1/queues/victim/pause", "", "Host: attacker.example",
		),
		"put": putTo("/v1/queues/victim", `{"rate":"9/s"}`, "Host: attacker.example"), "delete": request(
			"DELETE", "/v1/queues/victim?force=true", "", "Host: attacker.example",
		),
		"append": postTo(
			"/v1/queues/victim/jobs", `{"payload":1}`, "Host: attacker.example",
		), "metrics": get("/metrics", "Host: attacker.example"),
		"readyz": get("/readyz", "Host: attacker.example"), "healthz": get("/healthz", "Host: attacker.example"),
		"openapi": get("/openapi.json", "Host: attacker.example"),
		"nothing": get("/", "Host: attacker.example"), "head": request("HEAD", "/metrics", "", "Host: attacker.example"),
		"options":          request("OPTIONS", "*", "", "Host: attacker.example"),
		"lines":            request("POST", "/v1/queues/victim/jobs", "{\"payload\":1}\n", "Host: attacker.example", asLines),
		"an absolute path": "GET http://attacker.example/v1/queues HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"HTTP/1.0":         "GET /v1/queues HTTP/1.0\r\nHost: attacker.example\r\nConnection: keep-alive\r\n\r\n",
	} {
		hasBody := path == "put" || path == "append" || path == "lines"
		list = append(list, hostile{"rebound " + path, raw, 421, "misdirected", "Host", hasBody})
	}
	list = append(list,
		hostile{"another host, connecting", request("CONNECT", "attacker.example:80", ""), 421, "misdirected", "Host", false},
		hostile{
			"two hosts", get("/v1/queues", "Host: localhost", "Host: attacker.example"), 400, "malformed_request", "", true,
		},
		hostile{"no host", "GET /v1/queues HTTP/1.1\r\n\r\n", 400, "malformed_request", "", true},
		hostile{"a host that is none", get("/v1/queues", "Host: attacker example"), 400, "malformed_request", "", true},
	)
	x.attack(list)

	var own []hostile
	for _, host := range []string{
		"localhost", "LocalHost", "localhost.", "localhost:1", "127.0.0.1", "127.0.0.1:65535", "127.8.9.10", "[::1]",
		"[::1]:80", "10.1.2.3:8080", "192.0.2.7", "[2001:db8::1]:8080", "0.0.0.0:1",
		"penstock.example.com", "PENSTOCK.example.com.", "penstock.example.com:443", "ingress-1:8080",
	} {
		own = append(own, hostile{"own " + host, get("/v1/queues", "Host: "+host), 200, "", "", false})
	}
	own = append(own, hostile{"a probe without a host", "GET /readyz HTTP/1.0\r\n\r\n", 200, "", "", true})
	x.attack(own)
}

// Health and metrics of a drainer are behind the same guard.
func TestHostileDrainer(t *testing.T) {
	engine, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	none := drain.HandlerFunc(func(context.Context, *drain.Job) error { return nil })
	out, err := app.NewDrainer(engine, app.DrainerOptions{Handler: none, Listen: ops.Listen{
		Addr: "localhost:0", Hosts: []string{"drainer-1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := out.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait(); _ = engine.Close() })
	x := &victim{t: t, addr: out.Addr().String()}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/"} {
		for raw, want := range map[string]int{
			get(path, "Host: attacker.example"): 421, get(path, "Sec-Fetch-Site: cross-site"): 403,
			request("POST", path, "x", "Content-Type: text/plain"): 415,
			get(path, "Host: localhost"):                           200, get(path, "Host: drainer-1:8081"): 200,
			get(path, "Host: 10.0.0.7:8081"): 200, get(path, "Host: a b"): 400,
		} {
			if path == "/" && want == 200 {
				want = 404
			}
			status, head, text := x.send(raw)
			if status != want || status > 400 && status != 404 && head.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%q: %d %v %.300s, want %d", raw, status, head, text, want)
			}
		}
	}
}

func TestHostNames(t *testing.T) {
	for _, name := range []string{
		"penstock", "penstock.jobs.svc.cluster.local", "Example.com.", "xn--bcher-kva.example", "a_b",
	} {
		if err := httpio.ValidateHost(name); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{
		"": "is empty", ".": "is empty", "*": "has a *", "*.example.com": "has a *", "http://a.example": "is a URL",
		"a.example:80": "has a port", "::1": "is an address",
		"a b": "is not a host name", "a..b": "is not a host name",
		".a": "is not a host name", "bücher.example": "is not a host name",
		strings.Repeat("a", 254): "is not a host name",
	} {
		if err := httpio.ValidateHost(name); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "--host") {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// What a browser sends for a page of another origin is refused, and so is what it sends without asking for leave.
func TestHostilePages(t *testing.T) { attacked(t).attack(ofPages()) }

func ofPages() (list []hostile) {
	const victim = "/v1/queues/victim"
	forbidden := func(name, raw string) {
		_, body, _ := strings.Cut(raw, "\r\n\r\n")
		list = append(list, hostile{name, raw, 403, "cross_site", "", body != ""})
	}
	for _, from := range [][]string{
		{"Sec-Fetch-Site: cross-site"},
		{"Sec-Fetch-Site: same-site"},
		{"Sec-Fetch-Site: what"},
		{"Origin: https://attacker.example"},
		{"Origin: null"},
		{"Origin: http://localhost:3000"},
		{"Origin: http://localhost.attacker.example"},
		{"Sec-Fetch-Site: cross-site", "Origin: http://localhost"},
	} {
		name := strings.Join(from, ", ")
		forbidden(name+": pause", postTo(victim+"/pause", `{"reason":"x"}`, from...))
		forbidden(name+": purge", request("POST", victim+"/purge", "", from...))
		forbidden(name+": delete", request("DELETE", victim+"?force=true", "", from...))
	}
	for _, path := range []string{
		"/jobs", "/resume", "/replay", "/forget", "/decide", "/leases", "/settle", "/jobs/kept/cancel", "/rollback", "/quote",
	} {
		forbidden("a page posts to "+path, postTo(
			victim+path, `{"payload":1}`, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors",
		))
	}
	forbidden("a page puts a rule", putTo(
		"/v1/rules/victim.limit", `{"algorithm":"gap","period":"1h"}`, "Origin: https://attacker.example",
	))
	forbidden("a page takes", postTo("/v1/rules/victim.limit/take", `{}`, "Origin: https://attacker.example"))
	for _, path := range []string{"/v1/queues", "/metrics", "/healthz", "/openapi.json", victim + "/jobs/kept"} {
		forbidden("a page loads "+path, get(
			path, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script",
		))
	}
	forbidden("a page of another port reads", get(
		"/v1/queues", "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", "Origin: http://localhost:3000",
	))
	forbidden("a page frames", get(
		"/v1/queues", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe",
	))
	forbidden("a page asks for leave", request(
		"OPTIONS", victim, "", "Origin: https://attacker.example", "Access-Control-Request-Method: PUT",
		"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors",
	))
	forbidden("two sites", get("/v1/queues", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"))
	list = append(list, hostile{
		"an old page asks for leave",
		request("OPTIONS", victim, "", "Origin: https://attacker.example", "Access-Control-Request-Method: PUT"), 405,
		"method_not_allowed", "", false,
	})

	for _, c := range [][2]string{
		{"a form", "application/x-www-form-urlencoded"},
		{"text", "text/plain"},
		{"text of JSON", "text/plain; application/json"},
		{"a form of files", "multipart/form-data; boundary=x"},
		{"XML", "application/xml"},
		{"JSON of a kind", "application/problem+json"},
		{"utf-16", "application/json; charset=utf-16"},
		{"latin 1", `application/json; charset="iso-8859-1"`},
		{"no type", "json"},
		{"parameters that are none", "application/json; charset"},
		{"two types in one", "application/json, text/plain"},
		{"anything", "*/*"},
		{"lines as text", "text/x-ndjson"},
		{"CBOR", "application/cbor"},
	} {
		list = append(list,
			hostile{
				c[0] + " pauses", request("POST", victim+"/pause", "{}", "Content-Type: "+c[1]), 415, "unsupported_media_type",
				"Content-Type", true,
			},
			hostile{
				c[0] + " without a body resumes", request("POST", victim+"/resume", "", "Content-Type: "+c[1]), 415,
				"unsupported_media_type", "Content-Type", false,
			})
	}
	for _, path := range []string{"/pause", "/purge", "/jobs", "/resume", "/settle", "/jobs/kept/cancel"} {
		list = append(list, hostile{
			"a Blob to " + path, request("POST", victim+path, "{}"), 415, "unsupported_media_type", "Content-Type", true,
		})
	}
	list = append(list,
		hostile{"a Blob puts", request("PUT", victim, `{"rate":"9/s"}`), 415, "unsupported_media_type", "Content-Type", true},
		hostile{
			"two types", request("POST", victim+"/pause", "{}", asJSON, "Content-Type: text/plain"), 415,
			"unsupported_media_type", "Content-Type", true,
		},
		hostile{
			"an empty type", request("POST", victim+"/pause", "{}", "Content-Type:"), 415, "unsupported_media_type",
			"Content-Type", true,
		},
		hostile{
			"lines where JSON is wanted", request("PUT", victim, `{"rate":"9/s"}`, asLines), 415, "unsupported_media_type",
			"Content-Type", false,
		},
		hostile{"a body of a GET", request("GET", "/v1/queues", "x"), 415, "unsupported_media_type", "Content-Type", true},
		hostile{
			"a body of a DELETE", request("DELETE", victim, "x", "Content-Type: text/plain"), 415, "unsupported_media_type",
			"Content-Type", true,
		},
		hostile{
			"a compressed body", postTo(victim+"/jobs", "\x1f\x8b", "Content-Encoding: gzip"), 415, "unsupported_media_type", "",
			false,
		},
		hostile{
			"compressed lines", request("POST", victim+"/jobs", "\x1f\x8b", "Content-Encoding: br", asLines), 415,
			"unsupported_media_type", "", true,
		},
		hostile{
			"a link is followed",
			get("/v1/queues", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), 200, "", "",
			false,
		},
		hostile{
			"a person types the address",
			get("/metrics", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), 200, "", "", false,
		},
		hostile{"a log is replayed", replayed(`{"time":"2026-11-24T08:00:00Z"}`, bytesType), 200, "", "", false},
		hostile{
			"a page replays a log", replayed("{}", bytesType, "Origin: https://attacker.example"), 403, "cross_site", "", true,
		},
		hostile{
			"a form replays a log", replayed("a=b", "Content-Type: application/x-www-form-urlencoded"), 415,
			"unsupported_media_type", "Content-Type", true,
		},
		hostile{
			"a log of two types", replayed("{}", bytesType, "Content-Type: text/plain"), 415, "unsupported_media_type",
			"Content-Type", true,
		},
		hostile{
			"bytes pause", request("POST", victim+"/pause", "{}", bytesType), 415, "unsupported_media_type",
			"Content-Type", true,
		},
		hostile{
			"JSON with a charset", postTo("/v1/queues/victim/quote", `{"jobs":1}`, "Origin: http://localhost"), 200, "", "",
			false,
		},
	)
	return list
}

const bytesType = "Content-Type: " + asBytes

// replayed sends a log to be replayed.
func replayed(log string, headers ...string) string {
	return request("POST", "/v1/replay?format=ndjson&rule=fixed_window+limit%3D5+period%3D1h", log, headers...)
}
