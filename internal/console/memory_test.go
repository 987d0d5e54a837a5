package console

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/ops"
)

// largeJobs is an API whose jobs have payloads of a megabyte.
type largeJobs struct {
	carries []byte
	// within is called with each response after it was written and before it is read.
	within func(*answer)
}

func newLargeJobs(within func(*answer)) *largeJobs {
	text := append(
		[]byte(`{"queue":"email","id":"a","state":"waiting","content_type":"text/plain","payload_base64":"`),
		bytes.Repeat([]byte("eHh4"), 1<<20/3)...,
	)
	return &largeJobs{carries: append(text, `"}`...), within: within}
}

func (l *largeJobs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/whoami" {
		(&fakeAPI{}).ServeHTTP(w, r)
		return
	}
	_, _ = w.Write(l.carries)
	l.within(w.(*answer))
}

// unread is a browser that reads only the beginning of a page.
type unread struct {
	*httptest.ResponseRecorder
	began chan<- int
	gone  <-chan struct{}
}

func (u unread) Write(b []byte) (int, error) {
	u.began <- u.Code
	<-u.gone
	return len(b), nil
}

// crowd requests n pages of large jobs without reading them.
type crowd struct {
	console  http.Handler
	began    chan int
	gone     chan struct{}
	browsers sync.WaitGroup
}

func newCrowd(c http.Handler) *crowd {
	return &crowd{console: c, began: make(chan int, fifty), gone: make(chan struct{})}
}

func (c *crowd) ask() {
	c.browsers.Go(func() {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080/console/queues/email/jobs/a", nil)
		r.Header.Set("Cookie", cookie+"="+goodToken)
		c.console.ServeHTTP(unread{httptest.NewRecorder(), c.began, c.gone}, r)
	})
}

func (c *crowd) leave() {
	close(c.gone)
	c.browsers.Wait()
}

const fifty = 50

// 50 unread pages of a megabyte each stay within the memory budget. Each is charged until it was read.
func TestUnreadPages(t *testing.T) {
	memory := ops.NewBudget(16 << 20)
	c := newCrowd(New(Options{API: newLargeJobs(func(*answer) {}), Memory: memory}))
	before := heap()
	for i := range fifty {
		c.ask()
		if status := <-c.began; status != http.StatusOK {
			t.Errorf("page %d answers %d", i, status)
		}
	}
	grew, used := heap()-before, memory.Used()
	if grew > memory.Limit() {
		t.Errorf("%d pages that nobody reads take %d bytes, with %d in all", fifty, grew, memory.Limit())
	}
	if grew > used*3/2 {
		t.Errorf("%d bytes are kept, and %d charged", grew, used)
	}
	c.leave()
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes are charged when all pages are gone", used)
	}
}

// API responses are charged as soon as they exist: of 50 simultaneous pages, those without memory are refused.
func TestSimultaneousPages(t *testing.T) {
	memory := ops.NewBudget(16 << 20)
	all := make(chan struct{})
	kept := make(chan int, fifty)
	c := newCrowd(New(Options{Memory: memory, API: newLargeJobs(func(a *answer) {
		if a.refused == nil {
			kept <- a.body.Len()
			<-all
		}
	})}))
	for range fifty {
		c.ask()
	}
	made, refused, size := 0, 0, int64(0)
	for range fifty {
		select {
		case n := <-kept:
			made++
			size += int64(n)
		case status := <-c.began:
			refused++
			if status != http.StatusServiceUnavailable {
				t.Errorf("a page answers %d", status)
			}
		}
	}
	if made == 0 || refused == 0 || memory.Used() < size*answerCost || memory.Used() > memory.Limit() {
		t.Errorf("%d pages are made of %d bytes, %d refused, %d bytes charged", made, size, refused, memory.Used())
	}
	close(all)
	c.leave()
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes are charged when all pages are gone", used)
	}
}

// A refusal for lack of memory is shown on a page.
func TestNoMemoryForAPage(t *testing.T) {
	memory := ops.NewBudget(1 << 20)
	c := New(Options{API: newLargeJobs(func(*answer) {}), Memory: memory})
	v := visit(t, c, "GET", "/console/queues/email/jobs/a", goodToken, nil)
	if v.StatusCode != http.StatusServiceUnavailable || !bytes.Contains([]byte(v.body), []byte("no memory")) {
		t.Errorf("%d %s", v.StatusCode, v.body)
	}
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes are still charged", used)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
