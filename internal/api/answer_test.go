package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/api"
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
