package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/api/httpio"
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
			body.WriteString(`{"payload":"` + strings.Repeat("x", httpio.MaxJobBytes) + "\"}\n")
		case 5002:
			body.WriteString(`{"payload":"` + strings.Repeat("x", httpio.MaxJobBytes-100) + "\"}\n")
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
			wantLine(t, m, "line", n, "status", 413, "reason", "too_large", "limit", httpio.MaxJobBytes)
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

// open starts a stream whose body is written by hand.
func (f *fixture) open(path string) (*io.PipeWriter, *bufio.Reader, head) {
	f.t.Helper()
	body, feed := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, f.url+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = feed.Close(); _ = resp.Body.Close() })
	return feed, bufio.NewReader(resp.Body), head{resp.StatusCode, resp.ProtoMajor, resp.Header.Get("Content-Type")}
}

// head is what there is of a response before its body.
type head struct {
	status, proto int
	contentType   string
}

func say(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func line(t *testing.T, r *bufio.Reader) map[string]any {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("after %q: %v", text, err)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return m
}

func wantLine(t *testing.T, got map[string]any, members ...any) {
	t.Helper()
	for i := 0; i < len(members); i += 2 {
		want := members[i+1]
		if n, ok := want.(int); ok {
			want = float64(n)
		}
		if fmt.Sprint(got[members[i].(string)]) != fmt.Sprint(want) {
			t.Errorf("%v is %v, want %v in %v", members[i], got[members[i].(string)], members[i+1], got)
		}
	}
}

// duplex is a response that can be written while its request is read, without a
// network in between: what was written to the request's pipe has been read.
type duplex struct {
	http.ResponseWriter
	out *io.PipeWriter
}

func (d duplex) EnableFullDuplex() error          { return nil }
func (d duplex) FlushError() error                { return nil }
func (d duplex) SetReadDeadline(time.Time) error  { return nil }
func (d duplex) SetWriteDeadline(time.Time) error { return nil }
func (d duplex) Write(b []byte) (int, error)      { return d.out.Write(b) }

// forgetful takes everything and keeps nothing, so that what memory grows by is
// the stream's.
type forgetful struct{ *engine }

func (forgetful) Append(_ context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	answers := make([]queue.Appended, len(jobs))
	for i := range jobs {
		answers[i] = queue.Appended{Outcome: queue.Accepted, State: queue.Waiting, Position: 1, ETA: queue.ETA{At: epoch}}
	}
	return answers, nil
}

func poll(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("waited for 20 s in vain")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
