package httptarget

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Deliveries beyond the maximum wait for a connection, and get one in order of arrival. One that gives up leaves its
// place to the next.
func TestConnectionsInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns atomic.Int64
		answer := make(chan struct{})
		r := piped(t, func(conn net.Conn) {
			conns.Add(1)
			b := bufio.NewReader(conn)
			for {
				req, err := http.ReadRequest(b)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				<-answer
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		})
		target := Default()
		most := 2
		target.URL, target.MaxConnections = "http://"+nowhere, &most
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for n := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			all.Go(func() {
				g := opened()
				g.wait = func(int) error {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, n)
					return nil
				}
				err := r.Deliver(ctx, jobFor("", "{}"), g, target)
				if interrupted := errors.Is(err, context.Canceled); interrupted != (n == 3) || err != nil && !interrupted {
					t.Errorf("%d: %v", n, err)
				}
			})
			synctest.Wait()
			if n == 3 {
				cancel()
				synctest.Wait()
			}
		}
		for range 5 {
			answer <- struct{}{}
			synctest.Wait()
		}
		all.Wait()
		if got := fmt.Sprint(order); got != "[0 1 2 4 5]" || conns.Load() != 2 {
			t.Errorf("at the gate in the order %s, on %d connections", got, conns.Load())
		}
	})
}

// When a dial fails, its delivery fails, and those behind it dial anew.
func TestDialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		r := sender(t, Options{})
		r.pools.dialer.connect = func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Second)
			return nil, fmt.Errorf("dial %d failed", dials.Add(1))
		}
		target := Default()
		most := 1
		target.URL, target.MaxConnections = "http://"+nowhere, &most
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond)
				err := r.Deliver(t.Context(), jobFor("", "{}"), opened(), target)
				wantErr(t, err, nil, fmt.Sprintf("dial %d failed", n+1))
			})
		}
		all.Wait()
	})
}

// An idle connection is closed after a while, and a used one stays.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns, ended atomic.Int64
		r := piped(t, func(conn net.Conn) {
			conns.Add(1)
			defer ended.Add(1)
			b := bufio.NewReader(conn)
			for {
				req, err := http.ReadRequest(b)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		})
		deliver := func() {
			if err := r.Handle(t.Context(), jobFor("http://"+nowhere, "{}"), opened()); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			deliver()
			time.Sleep(idleTimeout - time.Second)
		}
		if conns.Load() != 1 || ended.Load() != 0 {
			t.Errorf("%d connections, %d ended, though one was used", conns.Load(), ended.Load())
		}
		time.Sleep(2 * time.Second)
		if synctest.Wait(); ended.Load() != 1 {
			t.Error("the idle connection is open")
		}
		deliver()
		if conns.Load() != 2 {
			t.Errorf("%d connections", conns.Load())
		}
	})
}

// A delivery that waits in a pool while it is evicted gets the connection that is being made.
func TestEvictedPoolServesItsDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		r := piped(t, func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		})
		connect := r.pools.dialer.connect
		r.pools.dialer.connect = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			time.Sleep(time.Second)
			return connect(ctx, network, address)
		}
		target := Default()
		target.URL = "http://" + nowhere
		go func() {
			time.Sleep(100 * time.Millisecond)
			p, _ := r.pools.of(target)
			p.close()
		}()
		if err := r.Deliver(t.Context(), jobFor("", "{}"), opened(), target); err != nil || dials.Load() != 1 {
			t.Errorf("%v, %d dials", err, dials.Load())
		}
	})
}
