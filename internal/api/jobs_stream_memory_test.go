package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/ops"
)

// Lines are charged while they are held. One for which there is no memory is refused by itself, what a batch has no
// memory for goes into the next, and all is given back.
func TestStreamLinesAreCharged(t *testing.T) {
	memory := ops.NewBudget(2 << 20)
	f := serve(t, api.Options{})
	f.serveOver(f.engine, api.Options{Memory: memory})
	feed, answers, _ := f.open(jobs)
	before := memory.Used()
	if before < 512<<10 {
		t.Errorf("an open stream is charged %d", before)
	}
	say(t, feed, `{"payload":"`+strings.Repeat("x", 900<<10)+"\"}\n")
	wantLine(t, line(t, answers), "line", 1, "status", 503, "reason", "overloaded", "retry_after_ms", 1000)
	say(t, feed, `{"payload":"`+strings.Repeat("x", 100<<10)+`","id":"a"}`+"\n")
	wantLine(t, line(t, answers), "line", 2, "status", 202, "id", "a")
	const n = 400 // 8 MB in all
	go func() {
		for i := range n {
			_, _ = fmt.Fprintf(feed, `{"payload":%q,"id":"m%d"}`+"\n", strings.Repeat("x", 20<<10), i)
		}
		_ = feed.Close()
	}()
	for i := range n {
		wantLine(t, line(t, answers), "line", i+3, "status", 202)
		if used := memory.Used(); used > memory.Limit() {
			t.Fatalf("%d are in use of %d", used, memory.Limit())
		}
	}
	_, _ = io.ReadAll(answers)
	poll(t, func() bool { return memory.Used() == 0 })
}

// One address has at most half of the streams, and of the memory; others have the rest.
func TestStreamsByAddress(t *testing.T) {
	f := serve(t, api.Options{})
	memory := ops.NewBudget(8 << 20)
	s, err := ops.NewServer(ops.Listen{Addr: "127.0.0.1:0"}, ops.ServerOptions{Memory: memory, Refuse: api.RefuseBudget})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, held(t, api.New(f.engine, api.Options{MaxStreams: 4, Memory: memory, Stopping: s.Stopping()})))
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	f.url = s.URL()
	from := func(address string) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		tr := &http.Transport{DialContext: d.DialContext}
		t.Cleanup(tr.CloseIdleConnections)
		f.client = &http.Client{Transport: tr}
	}
	streams := func(want int) {
		for range want {
			feed, answers, resp := f.open(jobs)
			if resp.status != 200 {
				t.Fatalf("stream: %d", resp.status)
			}
			say(t, feed, `{"payload":1}`+"\n")
			wantLine(t, line(t, answers), "status", 202)
		}
	}
	const ndjson = "application/x-ndjson"
	from("127.0.0.1")
	streams(2)
	f.do("POST", jobs, "", "Content-Type", ndjson).want(t, 429, "reason", "over_share")
	f.do("POST", jobs, `{"payload":1}`).want(t, 202)
	from("127.0.0.2")
	streams(1)
	f.do("POST", jobs, "", "Content-Type", ndjson).want(t, 429, "reason", "over_share")
	from("127.0.0.3")
	streams(1)
	from("127.0.0.4")
	f.do("POST", jobs, "", "Content-Type", ndjson).want(t, 503, "reason", "overloaded")
}
