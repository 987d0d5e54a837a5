package memtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Attack is a way to make a server hold memory: what one connection sends, and then waits with.
type Attack func(host string) string

// Attacks that each leave something unfinished.
var (
	// Headers is a header that does not end, of names that take most for their size.
	Headers Attack = func(host string) string { return "GET / HTTP/1.1\r\nHost: " + host + "\r\n" + smallHeaders(15<<10) }
	// Pipelined is one behind a request that is answered.
	Pipelined Attack = func(host string) string {
		return "GET /healthz HTTP/1.1\r\nHost: " + host + "\r\n\r\nGET / HTTP/1.1\r\nHost: " + host + "\r\n" +
			smallHeaders(15<<10)
	}
	// HeadersThenBody is a large header whose request goes on.
	HeadersThenBody Attack = func(host string) string {
		return "POST /v1/queues/email/jobs HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n" + smallHeaders(14<<10) + "\r\n{"
	}
	// Body is a job of the largest size, but for its end.
	Body Attack = func(host string) string {
		return "POST /v1/queues/email/jobs HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Type: application/json\r\nContent-Length: 1500000\r\n\r\n{\"payload\":\"" + large(1<<20)
	}
	// Stream is lines of the largest size, the last without an end.
	Stream Attack = func(host string) string {
		whole := `{"payload":"` + large(1000<<10) + "\"}\n"
		return "POST /v1/queues/email/jobs HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000000000\r\n\r\n" +
			`{"payload":1}` + "\n" + whole + whole + whole + `{"payload":"` + large(1<<20)
	}
	// Leases is a settlement of very many.
	Leases Attack = func(host string) string {
		body := `{"jobs":[` + strings.Repeat("{},", 1<<20/3-10) + "{}]}"
		return fmt.Sprintf(
			"POST /v1/queues/email/settle HTTP/1.1\r\nHost: %s\r\n"+
				"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			host, len(body), body,
		)
	}
)

func large(n int) string { return strings.Repeat("x", n) }

// smallHeaders is a header of about so many bytes that takes most memory for its size when it is parsed.
func smallHeaders(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%c%c%c:\r\n", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}
	return b.String()
}

// Wave is how many connections do what.
type Wave struct {
	Attack Attack
	Count  int
}

// By is an attack by so many connections.
func (a Attack) By(connections int) Wave { return Wave{a, connections} }

// Phase is what is thrown at a server at once.
type Phase struct {
	Name      string
	Addresses int // from how many it comes
	Waves     []Wave
}

// Worst is the worst for an ingress, one after the other.
var Worst = []Phase{
	{"headers", 32, []Wave{Headers.By(8192)}},
	{"headers behind requests", 32, []Wave{Pipelined.By(8192)}},
	{"all at once", 32, []Wave{
		Headers.By(3000), HeadersThenBody.By(3000), Pipelined.By(1000), Body.By(512), Stream.By(256), Leases.By(128),
	}},
	{"one address", 1, []Wave{Headers.By(2000), HeadersThenBody.By(1000), Body.By(512), Stream.By(256)}},
}

// Flood keeps that many connections at it until the context ends, from as many addresses of this machine (127.1.0.1 and
// up) as the phase says; those that are turned away come again. It returns how many attempts there were.
func Flood(ctx context.Context, addr string, p Phase) int {
	var attempts atomic.Int64
	var all sync.WaitGroup
	n := 0
	for _, w := range p.Waves {
		text := w.Attack(addr)
		for range w.Count {
			from := &net.TCPAddr{IP: net.IPv4(127, 1, byte(n%p.Addresses/250), byte(1+n%p.Addresses%250))}
			n++
			all.Go(func() {
				for ctx.Err() == nil {
					attempts.Add(1)
					attack(ctx, from, addr, text)
					select {
					case <-ctx.Done():
					case <-time.After(300 * time.Millisecond): // or it would be a test of how many connections the kernel makes
					}
				}
			})
		}
	}
	all.Wait()
	return int(attempts.Load())
}

// attack sends a text and waits until it is cut off.
func attack(ctx context.Context, from *net.TCPAddr, addr, text string) {
	d := net.Dialer{LocalAddr: from, Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	_, _ = io.WriteString(c, text) // it may be cut off before it is through
	_, _ = io.Copy(io.Discard, c)
}
