package cli

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
)

// A queue whose target is the API that it was put by would let who may put queues do all that the API can: here, empty
// another queue. Whatever is allowed, and by whatever name or address of this machine: it never gets there.
func TestTargetsNeverReachOwnListener(t *testing.T) {
	for _, listen := range []ops.Listen{{Addr: "127.0.0.1:0"}, {Addr: "0.0.0.0:0", Insecure: true}} {
		t.Run(listen.Addr, func(t *testing.T) {
			guard := loopback(t)
			url, stop, err := startEmbedded(t.Context(), embeddedOptions{
				data: t.TempDir(), listen: listen, egress: guard, log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
			t.Setenv("PENSTOCK_URL", url)
			_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
			expect(t, ExitDone, "made", "", "queue", "set", "victim", "rate=1/h")
			expect(t, ExitDone, "paused", "", "queue", "pause", "victim")
			if r := penstock(t, `{"id":"1","payload":1}`, "push", "victim", "-f", "-"); r.code != ExitDone {
				t.Fatal(r.err)
			}
			hosts := []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"}
			if listen.Insecure {
				hosts = append(hosts, "127.8.8.8")
			}
			for _, host := range hosts {
				expect(
					t, ExitRefused, "", "this process listens", "queue", "set", "thief", "rate=10/s",
					"deliver.http.url=http://"+net.JoinHostPort(strings.Trim(host, "[]"), port)+"/v1/queues/victim/purge",
				)
			}
			if info := expect(
				t, ExitDone, "", "", "queue", "info", "victim", "-o", "json",
			); !strings.Contains(info.out, `"waiting": 1`) {
				t.Error(info.out)
			}
		})
	}
}

// A target on this machine that is not this process is reached, if it is allowed.
func TestTargetsReachOtherPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url, stop, err := startEmbedded(t.Context(), embeddedOptions{
		data: t.TempDir(), listen: ops.Listen{Addr: "127.0.0.1:0"}, egress: loopback(t), log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	t.Setenv("PENSTOCK_URL", url)
	expect(
		t, ExitDone, "made", "", "queue", "set", "email", "rate=10/s", fmt.Sprintf("deliver.http.url=http://%s/", l.Addr()),
	)
	if r := penstock(t, `{"id":"1","payload":1}`, "push", "email", "-f", "-"); r.code != ExitDone {
		t.Fatal(r.err)
	}
	arrived := make(chan struct{})
	go func() {
		if c, err := l.Accept(); err == nil {
			_ = c.Close()
			close(arrived)
		}
	}()
	await.Until(t, "the other port is connected to", func() bool {
		select {
		case <-arrived:
			return true
		default:
			return false
		}
	})
}
