package deliver

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// An app is not shown the operator's network, and the rest of what went wrong it is.
func TestConceal(t *testing.T) {
	target, err := Parse([]byte(`{"http":{"url":"http://hooks.example.com/x","proxy":"http://192.168.7.7:3128"}}`))
	if err != nil {
		t.Fatal(err)
	}
	tcp := func(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }
	cause := errors.New("connection refused")
	guard, _ := egress.New()
	refused := guard.Check("10.1.2.3", 80)
	var r *egress.Refused
	if !errors.As(refused, &r) {
		t.Fatal(refused)
	}
	r.Host = "hooks.example.com"
	proxied := &egress.Refused{Host: "proxy.corp.internal", Addr: netip.MustParseAddr("10.1.2.4")}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Addr: tcp("10.1.2.3:80"), Err: cause}, "dial tcp: connection refused"},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: tcp("93.184.216.34:80"), Err: cause}, "dial tcp: connection refused"},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: tcp("[fd00::7]:80"), Err: cause}, "dial tcp: connection refused"},
		{
			&net.OpError{Op: "read", Net: "tcp", Source: tcp("10.9.9.9:41000"), Addr: tcp("93.184.216.34:443"), Err: cause},
			"read tcp: connection refused",
		},
		{
			&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
				Err: "no such host", Name: "hooks.example.com", Server: "10.96.0.10:53", IsNotFound: true,
			}}, "dial tcp: lookup hooks.example.com: no such host",
		},
		{
			&net.DNSError{Err: "no such host", Name: "redis.corp.internal", Server: "10.96.0.10:53"},
			"lookup an internal name: no such host",
		},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: tcp("10.1.2.3:80"), Err: refused}, "dial tcp: hooks.example.com is at " +
			"an internal address, to which targets may connect only if the operator allows it"},
		{fmt.Errorf("the proxy: %w", proxied), "the proxy: an internal name is at an internal address, to which targets " +
			"may connect only if the operator allows it"},
		{
			fmt.Errorf("the proxy: TLS handshake with proxy.corp.internal:3128: %w", x509.HostnameError{
				Certificate: &x509.Certificate{DNSNames: []string{"squid.corp.internal"}}, Host: "proxy.corp.internal",
			}), "the proxy: TLS handshake with an internal name failed",
		},
		{errors.New("the proxy: TLS handshake with [fd00::7]:3128: EOF"), "the proxy: TLS handshake with an internal name " +
			"failed"},
		{errors.New("TLS handshake with hooks.example.com:443: EOF"), "TLS handshake with hooks.example.com:443: EOF"},
		{errors.New("the proxy, asked for 172.16.4.5:443, answered 502"), "the proxy, asked for an internal address:443, " +
			"answered 502"},
		{errors.New("it is at ::1, or ::ffff:10.0.0.8."), "it is at an internal address, or an internal address."},
		{errors.New("at:10.0.0.8:80: no"), "at:an internal address:80: no"},
		// What is no secret of the operator's stays.
		{errors.New("550 5.7.1 203.0.114.9 is blocked"), "550 5.7.1 203.0.114.9 is blocked"},
		{errors.New("the proxy 192.168.7.7:3128 answered 407 at 12:30:45"), "the proxy 192.168.7.7:3128 answered 407 at " +
			"12:30:45"},
		{errors.New("version 10.0.0 of 2026.11.24: no"), "version 10.0.0 of 2026.11.24: no"},
	} {
		got := conceal(drain.Down(fmt.Errorf("failed: %w", c.err)), target.Setting)
		if got.Error() != "failed: "+c.want {
			t.Errorf("%v: %v, want %s", c.err, got, c.want)
		}
		if drain.What(got).Verdict != queue.Down {
			t.Errorf("%v is another verdict", got)
		}
	}
}

// Errors are shown in full to the operator, whose queue it is, and in the log.
func TestConcealIsForApps(t *testing.T) {
	var log strings.Builder
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(at)
	var by Permission
	r := router(t, Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Permitted: func(string) (Permission, error) { return by, nil },
	})
	job := jobFor("http://localhost:" + port)
	full := r.Handle(t.Context(), job, new(gate))
	by = anything{}
	shown := r.Handle(t.Context(), job, new(gate))
	if !strings.Contains(full.Error(), port) || strings.Contains(shown.Error(), "127.0.0.1") ||
		strings.Contains(shown.Error(), "::1") || !strings.Contains(shown.Error(), "refused") {
		t.Errorf("the operator is shown %v, an app %v", full, shown)
	}
	if !strings.Contains(log.String(), ":"+port) {
		t.Errorf("the log has %s", log.String())
	}
}

// anything permits all.
type anything struct{}

func (anything) PermitTarget(string, setting.Setting) error { return nil }
