package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

type largeFixture struct {
	*fixture
	handler http.Handler
}

// keepingLarge is an API with so much memory, over a store with n waiting jobs of size bytes.
func keepingLarge(t *testing.T, memory *ops.Budget, n, size int) largeFixture {
	t.Helper()
	kept, e := keeping(t)
	f := largeFixture{fixture: kept}
	f.handler = held(t, api.New(e, api.Options{Memory: memory}))
	f.serveHandler(f.handler)
	spec := queue.Spec{Name: "email", Rate: leaky.PerSecond(1), Capacity: 1000}
	if _, err := e.Put(t.Context(), spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		payload := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), size-2)...), '"')
		a, err := e.Append(t.Context(), []queue.Job{{Queue: "email", ID: fmt.Sprintf("j%02d", i), Payload: payload}})
		if err != nil || a[0].Outcome != queue.Accepted {
			t.Fatal(a, err)
		}
	}
	return f
}

// unread is a response that nobody reads.
type unread struct {
	http.ResponseWriter
	began chan int // its status, once it is being written
	gone  <-chan struct{}
}

func (u unread) WriteHeader(status int) { u.began <- status }

func (u unread) Write(b []byte) (int, error) {
	<-u.gone
	return len(b), nil
}

// A page is as long as there is memory for what its jobs carry, and says where to go on.
func TestListEndsWhereMemoryDoes(t *testing.T) {
	memory := ops.NewBudget(16 << 20)
	f := keepingLarge(t, memory, 12, queue.MaxPayloadBytes)
	var ids []string
	pages := 0
	for path := jobs + "?state=waiting&payload=true"; path != ""; pages++ {
		a := f.do("GET", path, "")
		a.want(t, 200)
		list := a.body["jobs"].([]any)
		if len(list) > 5 {
			t.Errorf("a page of %d jobs of 1 MiB, with 16 MiB in all", len(list))
		}
		for _, j := range list {
			ids = append(ids, j.(map[string]any)["id"].(string))
		}
		path = ""
		if next, _ := a.body["next"].(string); next != "" {
			path = jobs + "?state=waiting&payload=true&after=" + next
		}
	}
	if want := "j00 j01 j02 j03 j04 j05 j06 j07 j08 j09 j10 j11"; strings.Join(ids, " ") != want {
		t.Errorf("%d pages have %s", pages, ids)
	}
	poll(t, func() bool { return memory.Used() == 0 })
}

// An answer is charged until the client has read it: what there is no memory for is refused, and all is given back.
func TestAnswersAreCharged(t *testing.T) {
	for _, path := range []string{jobs + "/j00", jobs + "?state=waiting&payload=true"} {
		memory := ops.NewBudget(24 << 20)
		f := keepingLarge(t, memory, 4, queue.MaxPayloadBytes)
		f.do("GET", path, "").want(t, 200)
		gone := make(chan struct{})
		var all sync.WaitGroup
		held := 0
		for status := 200; status == 200 && held < 50; held++ {
			u := unread{httptest.NewRecorder(), make(chan int, 1), gone}
			all.Go(func() { f.handler.ServeHTTP(u, httptest.NewRequest(http.MethodGet, path, nil)) })
			status = <-u.began
		}
		if used := memory.Used(); held == 50 || used < 8<<20 || used > memory.Limit() {
			t.Errorf("%s by %d who do not read: %d are in use of %d", path, held, used, memory.Limit())
		}
		f.do("GET", queues+"/email", "").want(t, 200)
		close(gone)
		all.Wait()
		if used := memory.Used(); used != 0 {
			t.Errorf("%d are in use when all is read", used)
		}
		f.do("GET", path, "").want(t, 200)
	}
}

// The first of a page is refused if there is no memory for it, and what is small is answered all the same.
func TestListWithoutMemory(t *testing.T) {
	memory := ops.NewBudget(2 << 20)
	f := keepingLarge(t, memory, 2, queue.MaxPayloadBytes)
	f.do("GET", jobs+"?state=waiting&payload=true", "").want(t, 503, "reason", "overloaded", "retry_after_ms", 1000)
	f.do("GET", jobs+"/j00", "").want(t, 503, "reason", "overloaded", "retry_after_ms", 1000)
	f.do("GET", jobs+"?state=waiting", "").want(t, 200)
	if used := memory.Used(); used != 0 {
		t.Errorf("%d are in use", used)
	}
}

// What was done is told, whatever there is of memory.
func TestDoneIsToldWithoutMemory(t *testing.T) {
	memory := ops.NewBudget(1 << 20)
	f := keepingLarge(t, memory, 0, 0)
	deliver := `{"x":"` + strings.Repeat("x", 60<<10) + `"}`
	f.do("PUT", queues+"/large", `{"rate":"1/s","deliver":`+deliver+`}`).want(t, 201)
	memory.Nobody().Add(1 << 20)
	f.do("GET", queues+"/large", "").want(t, 503, "reason", "overloaded")
	f.do("POST", queues+"/large/pause", "").want(t, 200)
	memory.Nobody().Free(1 << 20)
	if used := memory.Used(); used != 0 {
		t.Errorf("%d are in use", used)
	}
}

// So is a page of queues as long as there is memory for them.
func TestListOfLargeQueues(t *testing.T) {
	memory := ops.NewBudget(2 << 20)
	f := keepingLarge(t, memory, 0, 0)
	const n = 30
	for i := range n {
		f.do(
			"PUT", fmt.Sprintf("%s/q%02d", queues, i), `{"rate":"1/s","deliver":{"x":"`+strings.Repeat("x", 60<<10)+`"}}`,
		).want(t, 201)
	}
	seen := 0
	for path := queues + "?limit=1000&after=f"; path != ""; {
		a := f.do("GET", path, "")
		a.want(t, 200)
		list, _ := a.body["queues"].([]any)
		if len(list) == 0 || len(list) > 11 {
			t.Fatalf("a page of %d queues of 60 KiB, with 2 MiB in all", len(list))
		}
		for _, q := range list {
			if name := q.(map[string]any)["name"]; name != fmt.Sprintf("q%02d", seen) {
				t.Errorf("queue %d is %v", seen, name)
			}
			seen++
		}
		path = ""
		if next, _ := a.body["next"].(string); next != "" {
			path = queues + "?limit=1000&after=" + next
		}
	}
	if seen != n {
		t.Errorf("%d queues, want %d", seen, n)
	}
	poll(t, func() bool { return memory.Used() == 0 })
	memory.Nobody().Add(2<<20 - 100<<10)
	f.do("GET", queues, "").want(t, 503, "reason", "overloaded")
}

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
	s, err := ops.NewServer(
		ops.Listen{Addr: "127.0.0.1:0"}, ops.ServerOptions{Memory: memory, Refuse: httpio.RefuseBudget},
	)
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
