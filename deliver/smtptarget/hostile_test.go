package smtptarget

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// A server that never answers, answers a byte at a time, or answers without an end holds its connection for its time,
// and no memory.
func TestHostile(t *testing.T) {
	flood := bytes.Repeat([]byte("250-x\r\n"), 1<<15)
	line := bytes.Repeat([]byte("x"), 1<<18)
	endless := func(c net.Conn, b []byte) {
		for n := 0; n < 100<<20; n += len(b) {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}
	trickle := func(c net.Conn, text string) {
		for _, b := range []byte(strings.Repeat(text, 1000)) {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	greeted := func(c net.Conn, r *bufio.Reader) bool { // up to MAIL FROM
		_, _ = io.WriteString(c, "220 hi\r\n")
		_, _ = r.ReadString('\n')
		_, _ = io.WriteString(c, "250 hi\r\n")
		_, err := r.ReadString('\n')
		return err == nil
	}
	silence := func(r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }
	for name, c := range map[string]struct {
		serve  func(c net.Conn, r *bufio.Reader)
		want   queue.Verdict
		floods bool // a network: what neither side reads has to be somewhere
	}{
		"a banner without an end": {func(c net.Conn, _ *bufio.Reader) { endless(c, line) }, queue.Down, true},
		"lines without an end": {
			func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, "220 hi\r\n"); endless(c, flood) }, queue.Down, true,
		},
		"an answer without an end": {
			func(c net.Conn, r *bufio.Reader) { greeted(c, r); endless(c, flood) }, queue.Down, true,
		},
		"no banner":     {func(_ net.Conn, r *bufio.Reader) { silence(r) }, queue.Release, false},
		"a slow banner": {func(c net.Conn, _ *bufio.Reader) { trickle(c, "220-slow\r\n") }, queue.Release, false},
		"no answer":     {func(c net.Conn, r *bufio.Reader) { greeted(c, r); silence(r) }, queue.Down, false},
		"a slow answer": {
			func(c net.Conn, r *bufio.Reader) { greeted(c, r); trickle(c, "250-slow\r\n") }, queue.Down, false,
		},
		"no answer to the message": {func(c net.Conn, r *bufio.Reader) {
			greeted(c, r)
			_, _ = io.WriteString(c, "250 ok\r\n250 ok\r\n354 go on\r\n")
			silence(r)
		}, queue.Hold, false},
		"a message that is not read": {func(c net.Conn, r *bufio.Reader) {
			_ = c.(*net.TCPConn).SetReadBuffer(1 << 12)
			greeted(c, r)
			_, _ = io.WriteString(c, "250 ok\r\n250 ok\r\n354 go on\r\n")
			pause := time.NewTimer(2 * time.Second)
			<-pause.C
		}, queue.Hold, true},
	} {
		judge := func(t *testing.T, s *Sender, host string, port int) {
			payload := `{"to": "a@example.com", "text": "x"}`
			if strings.HasSuffix(name, "not read") {
				payload = `{"to": "a@example.com", "attachments": [{"name": "x", "content": "` +
					base64.StdEncoding.EncodeToString(make([]byte, 700<<10)) + `"}]}`
			}
			g := opened()
			if c.want == queue.Release {
				g.closes = time.Now().Add(200 * time.Millisecond)
			}
			before := allocated()
			begin := time.Now()
			err := s.Deliver(t.Context(), jobOf(payload), g, target(t, host, port, func(s *SMTP) {
				s.Timeout = unit.Duration(300 * time.Millisecond)
			}))
			// the kernel takes all of it, or not
			if said := drain.What(err); !strings.HasSuffix(name, "not read") || said.Verdict != queue.Fail {
				wants(t, err, c.want)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if more := int64(allocated()) - int64(before); more > 8<<20 {
				t.Errorf("%d bytes more are held", more)
			}
			if len(err.Error()) > 600 {
				t.Errorf("a long error: %.200s", err)
			}
		}
		t.Run(name, func(t *testing.T) {
			if c.floods {
				host, port := script(t, func(_ int, conn net.Conn, r *bufio.Reader) { c.serve(conn, r) })
				judge(t, sender(t, Options{}), host, port)
				return
			}
			synctest.Test(t, func(t *testing.T) { judge(t, piped(t, c.serve), "127.0.0.1", 25) })
		})
	}
}

func allocated() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
