package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/memtest"
	"github.com/penstock/penstock/internal/test/redistest"
)

// maximum is what docs/configuration.md states for an ingress with default settings.
const maximum = 512 << 20

// Under the worst load that clients can cause, an ingress stays below its stated maximum, and afterwards it serves as
// before.
func TestMemoryMaximum(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	path, err := memtest.Build(t.Context(), "../..", t.TempDir(), "./cmd/ingress")
	if err != nil {
		t.Fatal(err)
	}
	p, err := memtest.Start(
		t.Context(), maximum, path, "--redis", redis.URL(), "--init", "--no-auth", "--listen", "127.0.0.1:0",
	)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	t.Log(p.How())
	url, err := p.URL()
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimPrefix(url, "http://")
	ask := from("127.0.0.1")
	if status, text := ask(t, "PUT", url+"/v1/queues/email", `{"rate":"1/h","capacity":100000}`); status != 201 {
		t.Fatal(status, text)
	}
	for _, c := range memtest.Worst {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		done := make(chan int, 1)
		go func() { done <- memtest.Flood(ctx, addr, c) }()
		if c.Addresses == 1 {
			time.Sleep(2 * time.Second) // let the requests arrive
			for i := range 5 {
				if status, text := from("127.0.0.2")(t, "POST", url+"/v1/queues/email/jobs", `{"payload":1}`); status != 202 {
					t.Errorf("beside one address that takes all it can, another's job %d: %d %s", i, status, text)
				}
			}
		}
		attempts := <-done
		cancel()
		t.Logf("%s: %d attempts, %d MiB at most until now", c.Name, attempts, p.Peak()>>20)
		if err := p.Exceeded(); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	await.Until(t, "it is ready afterwards", func() bool { // Redis may be late, where the machine is busy
		status, _ := ask(t, "GET", url+"/readyz", "")
		return status == 200
	})
	if status, text := ask(t, "POST", url+"/v1/queues/email/jobs", `{"payload":1}`); status != 202 {
		t.Errorf("afterwards: %d %s", status, text)
	}
}

// from is a client at an address of this machine.
func from(address string) func(t *testing.T, method, url, body string) (int, string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	client := &http.Client{
		Timeout:   time.Minute, // longer than anything here takes
		Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true},
	}
	return func(t *testing.T, method, url, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return 0, fmt.Sprint(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
}
