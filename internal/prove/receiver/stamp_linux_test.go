package receiver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/receiver"
)

// A receiver that cannot read for 200 ms knows from the kernel when the request came.
func TestLateReadsHaveRightInstants(t *testing.T) {
	r, err := receiver.Listen(receiver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	sent := send(t, r, c, "first", "")
	<-time.After(200 * time.Millisecond) // it is held up
	late := r.Now()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx) }()
	answers := bufio.NewReader(c)
	answered(t, answers)
	a := r.Arrivals(0)[0]
	check(t, a, sent)
	if a.At > late-150*time.Millisecond {
		t.Errorf("stamped at %v; it was read after %v", a.At, late)
	}

	// The next request on the same connection has its own stamp, even after a body in several pieces.
	sent = send(t, r, c, "second", strings.Repeat("x", 100_000))
	answered(t, answers)
	check(t, r.Arrivals(1)[0], sent)
	sent = send(t, r, c, "third", "")
	answered(t, answers)
	check(t, r.Arrivals(2)[0], sent)

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A blocked handler makes neither the requests of others late nor its own next request.
func TestLateAnswersHaveRightInstants(t *testing.T) {
	begun, hold := make(chan struct{}), make(chan struct{})
	r := serve(t, receiver.Options{Answer: func(a receiver.Arrival) int {
		if a.ID == "first" {
			close(begun)
			<-hold
		}
		return http.StatusOK
	}})
	c, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	send(t, r, c, "first", "")
	<-begun
	sent := send(t, r, c, "second", "")
	<-time.After(200 * time.Millisecond)
	late := r.Now()
	close(hold)
	answers := bufio.NewReader(c)
	answered(t, answers)
	answered(t, answers)
	a := r.Arrivals(1)[0]
	check(t, a, sent)
	if a.ID != "second" || a.At > late-150*time.Millisecond {
		t.Errorf("%+v; it was read after %v", a, late)
	}
}

// send writes a request and returns the time before and after, by the receiver's clock.
func send(t *testing.T, r *receiver.Receiver, c net.Conn, id, body string) (when [2]time.Duration) {
	t.Helper()
	text := fmt.Sprintf(
		"POST / HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s", receiver.HeaderID, id, len(body), body,
	)
	when[0] = r.Now()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	when[1] = r.Now()
	return when
}

func answered(t *testing.T, from *bufio.Reader) {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// check compares an arrival with the time of its sending. The clocks are read one after the other, hence a tolerance of
// a millisecond.
func check(t *testing.T, a receiver.Arrival, sent [2]time.Duration) {
	t.Helper()
	if !a.Kernel {
		t.Errorf("%s was not stamped by the kernel", a.ID)
	}
	if a.At < sent[0]-time.Millisecond || a.At > sent[1]+time.Millisecond {
		t.Errorf("%s was sent between %v and %v, stamped at %v", a.ID, sent[0], sent[1], a.At)
	}
}
