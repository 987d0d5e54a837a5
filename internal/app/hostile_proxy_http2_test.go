package app_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
)

// secured is a gateway with TLS, and a client that speaks HTTP/2 with it.
func secured(t *testing.T) (*gateway, *http.Client) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	pair, leaf := s.TLS.Certificates[0], s.Certificate()
	s.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: leaf.Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := newGateway(t, func(o *gatewayOptions) {
		o.Listen = ops.Listen{
			Addr: "127.0.0.1:0", TLSCert: filepath.Join(dir, "cert.pem"), TLSKey: filepath.Join(dir, "key.pem"),
		}
		o.API.AnswerTimeout = 300 * time.Millisecond
	})
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return g, &http.Client{Transport: transport}
}

// A call over HTTP/2 waits, uploads, streams and is given up as over HTTP/1.1. A receiver that is silent for longer
// than a caller may take to read does not end its stream.
func TestHostileProxyHTTP2(t *testing.T) {
	next := make(chan string)
	p := newRawReceiver(t, func(head string, in *bufio.Reader, conn net.Conn) {
		body, _ := io.ReadAll(readRequest(t, head, in).Body)
		if strings.HasPrefix(head, "POST") {
			_, _ = io.WriteString(conn, said("HTTP/1.1 200 OK", "Connection: close", "", string(body)))
			return
		}
		time.Sleep(500 * time.Millisecond)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for event := range next {
			_, _ = io.WriteString(conn, event)
		}
	})
	g, client := secured(t)
	g.put("q", p.url, "", `"timeout":"1m"`)
	do := func(ctx context.Context, method, path, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, g.url+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Penstock-Wait", "1m")
		return client.Do(r)
	}
	large := strings.Repeat("x", 300_000)
	resp, err := do(t.Context(), "POST", "/proxy/q/echo", large)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(got) != large || resp.ProtoMajor != 2 {
		t.Errorf("%s: %d bytes, %v", resp.Proto, len(got), err)
	}

	if resp, err = do(t.Context(), "GET", "/proxy/q/events", ""); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 3 {
		next <- "1\r\n!\r\n"
		if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	next <- "0\r\n\r\n"
	close(next)
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	g.quiet("q")

	if _, err := g.engine.Throttle(t.Context(), "q", 30*time.Second, "test"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := do(ctx, "POST", "/proxy/q/left", "body"); err == nil {
			_ = resp.Body.Close()
			t.Errorf("it was answered %s", resp.Status)
		}
	}()
	await.Until(t, "its place is taken", func() bool { info := g.info("q"); return info.Size() == 1 })
	cancel()
	<-left
	g.quiet("q")
	if g.outcome("gone") != 1 {
		t.Errorf("%d are counted as gone", g.outcome("gone"))
	}
}
