package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
)

// Each line is answered while the request is still being written.
func TestStreamBothWays(t *testing.T) {
	f := serve(t, api.Options{})
	feed, answers, resp := f.open(jobs)
	if resp.status != http.StatusOK || resp.contentType != "application/x-ndjson" {
		t.Fatalf("%+v", resp)
	}
	say(t, feed, `{"payload":1,"id":"a"}`+"\n")
	wantLine(t, line(t, answers), "line", 1, "status", 202, "id", "a", "state", "waiting", "position", 1)
	say(t, feed, `{"payload":1,"id":"a"}`+"\r\n\n  \n")
	wantLine(t, line(t, answers), "line", 2, "status", 200, "replayed", true)
	say(t, feed, `{"payload":2,"id":"a"}`+"\n")
	wantLine(t, line(t, answers), "line", 5, "status", 409, "reason", "conflict", "id", "a")
	say(t, feed, `{"payload":2,"lanes":"a"}`+"\n")
	wantLine(t, line(t, answers), "line", 6, "status", 400, "reason", "unknown_field", "field", "lanes")
	f.engine.fail(queue.ErrUnavailable)
	say(t, feed, `{"payload":2,"id":"b"}`+"\n")
	wantLine(t, line(t, answers), "line", 7, "status", 503, "reason", "unavailable", "id", "b", "retry_after_ms", 1000)
	f.engine.fail(nil)
	say(t, feed, `{"payload":2,"id":"b"}`) // the last line needs no end
	_ = feed.Close()
	wantLine(t, line(t, answers), "line", 8, "status", 202, "id", "b")
	if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
		t.Errorf("after the last answer: %q, %v", rest, err)
	}
}

// One broken line among 10,000 concerns nobody else, and lines travel together.
func TestStreamBrokenLine(t *testing.T) {
	f := serve(t, api.Options{})
	var body strings.Builder
	for i := 1; i <= 10_000; i++ {
		switch i {
		case 5000:
			body.WriteString("{\"payload\":\n")
		case 5001:
			body.WriteString(`{"payload":"` + strings.Repeat("x", api.MaxEnvelopeBytes) + "\"}\n")
		case 5002:
			body.WriteString(`{"payload":"` + strings.Repeat("x", api.MaxEnvelopeBytes-100) + "\"}\n")
		default:
			fmt.Fprintf(&body, "{\"payload\":{\"n\":%d},\"id\":\"j%d\"}\n", i, i)
		}
	}
	a := f.do("POST", jobs, body.String(), "Content-Type", "application/x-ndjson")
	answers := strings.Split(strings.TrimSpace(a.text), "\n")
	if len(answers) != 10_000 {
		t.Fatalf("%d answers", len(answers))
	}
	for i, text := range answers {
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		n := i + 1
		switch n {
		case 5000:
			wantLine(t, m, "line", n, "status", 400, "reason", "invalid_json")
		case 5001:
			wantLine(t, m, "line", n, "status", 413, "reason", "too_large", "limit", api.MaxEnvelopeBytes)
		case 5002:
			wantLine(t, m, "line", n, "status", 413, "field", "payload", "limit", queue.MaxPayloadBytes)
		default:
			wantLine(t, m, "line", n, "status", 202, "id", fmt.Sprintf("j%d", n))
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	q := f.engine.queues["email"]
	if len(q.ids) != 9997 || q.ids[0] != "j1" || q.ids[9996] != "j10000" || !slices.IsSortedFunc(q.ids, byNumber) {
		t.Error("the jobs are not in the queue in the order of their lines")
	}
	if string(q.jobs["j77"].Payload) != `{"n":77}` {
		t.Errorf("payload %s", q.jobs["j77"].Payload)
	}
	if most := slices.Max(f.engine.appends); most > 500 {
		t.Errorf("a call of %d jobs, the most is 500", most)
	}
}

func byNumber(a, b string) int {
	var m, n int
	_, _ = fmt.Sscanf(a, "j%d", &m)
	_, _ = fmt.Sscanf(b, "j%d", &n)
	return m - n
}

// While a call is under way, what arrives is put together for the next one.
func TestStreamCoalesces(t *testing.T) {
	f := serve(t, api.Options{})
	entered, leave := make(chan int), make(chan bool)
	f.engine.before = func(jobs []queue.Job) { entered <- len(jobs); <-leave }
	body, feed := io.Pipe()
	answers, out := io.Pipe()
	r := httptest.NewRequest(http.MethodPost, jobs, body)
	r.Header.Set("Content-Type", "application/x-ndjson")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		api.New(f.engine, api.Options{}).ServeHTTP(duplex{httptest.NewRecorder(), out}, r)
	}()
	text := bufio.NewReader(answers)
	say(t, feed, "{\"payload\":0}\n")
	if n := <-entered; n != 1 {
		t.Errorf("the first call has %d jobs, want the lone one", n)
	}
	say(t, feed, strings.Repeat("{\"payload\":1}\n", 400))
	say(t, feed, "\n") // is read when all before it is in the batch
	leave <- true
	line(t, text)
	if n := <-entered; n != 400 {
		t.Errorf("the second call has %d jobs, want all that arrived during the first", n)
	}
	leave <- true
	for range 400 {
		line(t, text)
	}
	_ = feed.Close()
	<-ended
}

// Outcomes that nobody knows are said to be so, line by line, and the memory of
// such jobs is not used again.
func TestStreamOutcomeUnknown(t *testing.T) {
	f := serve(t, api.Options{})
	var held atomic.Pointer[[]byte]
	f.engine.before = func(jobs []queue.Job) {
		if held.Load() == nil {
			held.Store(&jobs[0].Payload)
		}
	}
	feed, answers, _ := f.open(jobs)
	f.engine.fail(queue.ErrOutcomeUnknown)
	say(t, feed, `{"payload":"first","id":"a"}`+"\n")
	wantLine(t, line(t, answers), "status", 504, "reason", "outcome_unknown", "id", "a")
	f.engine.fail(nil)
	for range 10 {
		say(t, feed, `{"payload":"other","id":"b"}`+"\n")
		line(t, answers)
	}
	if got := string(*held.Load()); got != `"first"` {
		t.Errorf("a payload whose outcome is unknown was overwritten with %s", got)
	}
}
