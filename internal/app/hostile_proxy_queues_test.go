package app_test

import (
	"testing"

	"github.com/penstock/penstock/internal/test/await"
)

// A queue that cannot be called says why, whatever it is.
func TestHostileProxyQueues(t *testing.T) {
	g := newGateway(t)
	g.put("q", fine(t).url, "", "")
	for _, c := range []struct{ name, spec, reason string }{
		{"drained", `{"rate":"1/s","deliver":{"http":{"url":"http://127.0.0.1:1/"}}}`, "invalid_field"},
		{"untargeted", `{"rate":"1/s","pull":true}`, "invalid_field"},
		{"paused", `{"rate":"1/s","pull":true,"deliver":{"http":{"url":"http://127.0.0.1:1/"}}}`, "no_turn"},
		{"private", `{"rate":"unlimited","pull":true,"deliver":{"http":{"url":"http://10.0.0.1/"}}}`, "receiver_unreachable"},
		{
			"secret", `{"rate":"unlimited","pull":true,"deliver":{"http":{"url":"http://127.0.0.1:1/${secret:NONE}"}}}`,
			"receiver_unreachable",
		},
	} {
		if a := g.call("PUT", "/v1/queues/"+c.name, c.spec, "Content-Type", "application/json"); a.status/100 != 2 {
			t.Fatalf("%s: %d %s", c.name, a.status, a.text)
		}
		if c.name == "paused" {
			if a := g.call("POST", "/v1/queues/paused/pause", `{"reason":"test"}`, "Content-Type",
				"application/json"); a.status/100 != 2 {
				t.Fatalf("%d %s", a.status, a.text)
			}
		}
		if a := g.call("GET", "/proxy/"+c.name, "", "Penstock-Wait", "500ms"); a.reason != c.reason {
			t.Errorf("%s: %d %s", c.name, a.status, a.text)
		}
		await.Until(t, "no place is left", func() bool { info := g.info(c.name); return info.Size() == 0 })
	}
}

// A target that leads back to the proxy, by itself or through another queue, ends at once and holds nothing.
func TestHostileProxyLoops(t *testing.T) {
	g := newGateway(t)
	g.put("self", g.url+"/proxy/self", `"circuit":{"off":true}`, "")
	g.put("ping", g.url+"/proxy/pong", `"circuit":{"off":true}`, "")
	g.put("pong", g.url+"/proxy/ping", `"circuit":{"off":true}`, "")
	for _, name := range []string{"self", "ping", "pong"} {
		a := g.call("POST", "/proxy/"+name+"/x", "{}")
		if a.status != 508 || a.reason != "loop" {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
		g.quiet(name)
	}
}

// A proxy may call another one, whatever the names of their queues.
func TestHostileProxyChain(t *testing.T) {
	far := newGateway(t)
	far.put("q", fine(t).url, "", "")
	near := newGateway(t)
	near.put("q", far.url+"/proxy/q", "", "")
	if a := near.call("POST", "/proxy/q/x", "{}"); a.status != 200 {
		t.Errorf("%d %s", a.status, a.text)
	}
}
