package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

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
