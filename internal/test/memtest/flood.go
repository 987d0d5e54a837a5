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

// Attack is the text that a connection sends before it waits, to make a server hold memory.
type Attack func(host string) string

// Attacks that leave something unfinished.
var (
	// Headers is an endless header, with names that take the most memory for their size.
	Headers Attack = func(host string) string { return "GET / HTTP/1.1\r\nHost: " + host + "\r\n" + smallHeaders(15<<10) }
	// Pipelined is Headers after a complete request.
	Pipelined Attack = func(host string) string {
		return "GET /healthz HTTP/1.1\r\nHost: " + host + "\r\n\r\nGET / HTTP/1.1\r\nHost: " + host + "\r\n" +
			smallHeaders(15<<10)
	}
	// HeadersThenBody is a large header with an unfinished body.
	HeadersThenBody Attack = func(host string) string {
		return "POST /v1/queues/email/jobs HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n" + smallHeaders(14<<10) + "\r\n{"
	}
	// Body is a job of the maximum size without its end.
	Body Attack = func(host string) string {
		return "POST /v1/queues/email/jobs HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Type: application/json\r\nContent-Length: 1500000\r\n\r\n{\"payload\":\"" + large(1<<20)
	}
	// Stream is lines of the maximum size, the last without an end.
	Stream Attack = func(host string) string {
		whole := `{"payload":"` + large(1000<<10) + "\"}\n"
		return "POST /v1/queues/email/jobs HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000000000\r\n\r\n" +
			`{"payload":1}` + "\n" + whole + whole + whole + `{"payload":"` + large(1<<20)
	}
	// Leases is one request with very many settlements.
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

// smallHeaders returns a header of about that many bytes that takes the most memory for its size.
func smallHeaders(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%c%c%c:\r\n", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}
	return b.String()
}

// Wave is a number of connections for each attack.
type Wave struct {
	Attack Attack
	Count  int
}

// By returns a wave of one attack by that many connections.
func (a Attack) By(connections int) Wave { return Wave{a, connections} }

// Phase is a set of attacks at the same time.
type Phase struct {
	Name      string
	Addresses int // number of client addresses
	Waves     []Wave
}

// Worst is the worst for an ingress, in order.
var Worst = []Phase{
	{"headers", 32, []Wave{Headers.By(8192)}},
	{"headers behind requests", 32, []Wave{Pipelined.By(8192)}},
	{"all at once", 32, []Wave{
		Headers.By(3000), HeadersThenBody.By(3000), Pipelined.By(1000), Body.By(512), Stream.By(256), Leases.By(128),
	}},
	{"one address", 1, []Wave{Headers.By(2000), HeadersThenBody.By(1000), Body.By(512), Stream.By(256)}},
}

// Flood keeps the connections of a phase open until the context ends, from as many addresses of this machine (127.1.0.1
// and up) as the phase has. Rejected connections are retried. It returns the number of tries.
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

// attack sends a text and waits until the connection is closed.
func attack(ctx context.Context, from *net.TCPAddr, addr, text string) {
	d := net.Dialer{LocalAddr: from, Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	_, _ = io.WriteString(c, text) // the server may close the connection first
	_, _ = io.Copy(io.Discard, c)
}
