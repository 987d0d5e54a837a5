package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/client"
)

// queueServer answers streams of jobs. answer returns the line about the n-th sending of a job.
type queueServer struct {
	answer func(id string, n int) string
	breaks func(request, line int) bool // before the answer to a line

	mu       sync.Mutex
	sent     map[string]int
	bodies   map[string]string
	requests int
}

func (s *queueServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	request := s.requests
	s.mu.Unlock()
	_ = http.NewResponseController(w).EnableFullDuplex() // or the server would drop what it has not read
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 8<<20)
	for n := 1; lines.Scan(); n++ {
		if s.breaks != nil && s.breaks(request, n) {
			panic(http.ErrAbortHandler)
		}
		var job struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(lines.Bytes(), &job)
		s.mu.Lock()
		if s.sent == nil {
			s.sent, s.bodies = map[string]int{}, map[string]string{}
		}
		s.sent[job.ID]++
		s.bodies[job.ID] = lines.Text()
		count := s.sent[job.ID]
		s.mu.Unlock()
		text := `"status":202,"state":"waiting","position":1,"eta":{"at":"2026-01-02T15:04:05Z","exact":false}`
		if s.answer != nil {
			text = s.answer(job.ID, count)
		} else if count > 1 {
			text = `"status":200,"replayed":true,"state":"waiting"`
		}
		_, _ = fmt.Fprintf(w, `{"line":%d,"id":%q,%s}`+"\n", n, job.ID, text)
		if s.breaks != nil {
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// numbered yields n jobs, and counts how many were read.
func numbered(n int, taken *int) iter.Seq[client.Job] {
	return func(yield func(client.Job) bool) {
		for i := range n {
			*taken++
			if !yield(client.Job{ID: fmt.Sprint("job-", i), Payload: i}) {
				return
			}
		}
	}
}

func TestStream(t *testing.T) {
	s := &queueServer{}
	c := serve(t, s.ServeHTTP)
	const n = 20_000
	taken, seen := 0, map[string]bool{}
	for done, err := range c.AppendStream(t.Context(), "q", numbered(n, &taken)) {
		if err != nil || done.State != client.StateWaiting || done.ETA == nil || seen[done.ID] {
			t.Fatalf("%+v, %v", done, err)
		}
		seen[done.ID] = true
	}
	if len(seen) != n || taken != n || s.requests > n/10 {
		t.Errorf("%d of %d results in %d requests", len(seen), taken, s.requests)
	}
}

// A stream that breaks sends the unanswered jobs again, with the same ids.
func TestStreamBreaks(t *testing.T) {
	s := &queueServer{breaks: func(request, line int) bool { return request < 4 && line == 3 }}
	c := serve(t, s.ServeHTTP)
	taken, results, duplicates := 0, 0, 0
	for done, err := range c.AppendStream(t.Context(), "q", numbered(100, &taken)) {
		if err != nil {
			t.Fatal(err)
		}
		results++
		if done.Duplicate {
			duplicates++
		}
	}
	if results != 100 || len(s.sent) != 100 {
		t.Errorf("%d results, %d duplicates, %d ids", results, duplicates, len(s.sent))
	}
}

// A line that says why the stream ended is no answer about its job.
func TestStreamIsEnded(t *testing.T) {
	for reason, status := range map[string]int{
		client.ReasonStopping: 503, client.ReasonUnauthenticated: 401, client.ReasonBodyTimeout: 408,
		client.ReasonBodyIncomplete: 400,
	} {
		s := &queueServer{}
		requests := 0
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests > 1 {
				s.ServeHTTP(w, r)
				return
			}
			_, _ = fmt.Fprintf(w, `{"line":1,"id":"job-0","status":202,"state":"waiting"}`+"\n"+
				`{"line":2,"id":"job-1","status":%d,"reason":%q,"retry_after_ms":1}`+"\n", status, reason)
		})
		jobs := []client.Job{{ID: "job-0", Payload: 1}, {ID: "job-1", Payload: 1}, {ID: "job-2", Payload: 1}}
		results, err := c.AppendMany(t.Context(), "q", jobs)
		if err != nil || len(results) != 3 || s.sent["job-0"] != 0 || s.sent["job-1"] != 1 || s.sent["job-2"] != 1 {
			t.Errorf("%s: %+v, %v, sent %v", reason, results, err, s.sent)
		}
	}
}

func TestStreamSendsRefusedJobsAgain(t *testing.T) {
	s := &queueServer{answer: func(id string, n int) string {
		switch {
		case id == "job-7":
			return `"status":409,"reason":"conflict"`
		case id == "job-8":
			return `"status":429,"reason":"full","retry_after_ms":3600000`
		case n < 3:
			return `"status":429,"reason":"full","retry_after_ms":2`
		}
		return `"status":202,"state":"waiting"`
	}}
	c := serve(t, s.ServeHTTP)
	taken, failed := 0, map[string]string{}
	for done, err := range c.AppendStream(t.Context(), "q", numbered(50, &taken)) {
		var p *client.Problem
		if errors.As(err, &p) {
			failed[done.ID] = p.Reason + p.ID
		}
	}
	if len(failed) != 2 || failed["job-7"] != "conflictjob-7" || failed["job-8"] != "fulljob-8" || s.sent["job-9"] != 3 {
		t.Errorf("%v, sent %v", failed, s.sent)
	}
	s.sent = nil
	for _, err := range c.AppendStream(t.Context(), "q", numbered(1, &taken), client.StreamOptions{RetryFor: -1}) {
		if err == nil {
			t.Error("it was sent again")
		}
	}
}

// A stream takes no more jobs than it may hold.
func TestStreamBackpressure(t *testing.T) {
	s := &queueServer{answer: func(string, int) string { return `"status":429,"reason":"full","retry_after_ms":20` }}
	c := serve(t, s.ServeHTTP)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	taken, ended := 0, 0
	for _, err := range c.AppendStream(ctx, "q", numbered(1000, &taken), client.StreamOptions{InFlight: 10}) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ended++
	}
	if ended < 10 || ended > 11 || taken > 11 {
		t.Errorf("%d results, %d taken", ended, taken)
	}
}

func TestStreamOfAQueueThatIsMissing(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, 404, `{"reason":"unknown_queue"}`) })
	taken, ended := 0, 0
	for done, err := range c.AppendStream(t.Context(), "q", numbered(3, &taken)) {
		var p *client.Problem
		if !errors.As(err, &p) || p.Reason != client.ReasonUnknownQueue || p.ID != done.ID {
			t.Errorf("%+v, %v", done, err)
		}
		ended++
	}
	if ended != 3 {
		t.Error(ended)
	}
}

func TestStreamLeftEarly(t *testing.T) {
	c := serve(t, (&queueServer{}).ServeHTTP)
	forever := func(yield func(client.Job) bool) {
		for yield(client.Job{Payload: 1}) {
		}
	}
	n := 0
	for _, err := range c.AppendStream(t.Context(), "q", forever) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 10 {
			break
		}
	}
}

func TestAppendMany(t *testing.T) {
	s := &queueServer{
		answer: func(id string, _ int) string {
			if id == "b" {
				return `"status":429,"reason":"full","retry_after_ms":20`
			}
			return `"status":202,"state":"waiting"`
		},
		breaks: func(request, line int) bool { return request == 1 && line == 2 },
	}
	c := serve(t, s.ServeHTTP)
	results, err := c.AppendMany(t.Context(), "q", []client.Job{
		{ID: "a", Payload: 1}, {ID: "b", Payload: 1}, {ID: "c", Payload: make(chan int)}, {Payload: 1}, {ID: "e"},
	})
	var p *client.Problem
	if !errors.As(err, &p) || p.ID != "b" || len(results) != 5 || results[0].Err != nil || results[0].ID != "a" ||
		!errors.Is(results[2].Err, client.ErrInvalid) || results[3].ID == "" || results[3].Err != nil ||
		!errors.Is(results[4].Err, client.ErrInvalid) {
		t.Errorf("%+v, %v", results, err)
	}
}

// Jobs wait in the order of their list, also when it takes several requests, and when jobs are few.
func TestAppendManyInOrder(t *testing.T) {
	for _, n := range []int{3, 2500} {
		var order []string
		s := &queueServer{answer: func(id string, _ int) string {
			order = append(order, id)
			return `"status":202,"state":"waiting"`
		}}
		c := serve(t, s.ServeHTTP)
		jobs := make([]client.Job, n)
		ids := make([]string, n)
		for i := range jobs {
			ids[i] = fmt.Sprint("job-", i)
			jobs[i] = client.Job{ID: ids[i], Payload: 1}
		}
		if _, err := c.AppendMany(t.Context(), "q", jobs); err != nil || !slices.Equal(order, ids) {
			t.Errorf("%d jobs arrived in another order, or not at all: %v", n, err)
		}
	}
}

func TestPayloads(t *testing.T) {
	s := &queueServer{}
	c := serve(t, s.ServeHTTP)
	big := json.RawMessage(`{"n": 12345678901234567890, "s": "<&>",` + "\n" + `"e": 1.0}`)
	for _, tt := range []struct {
		job  client.Job
		want string
	}{
		{client.Job{Payload: json.RawMessage(`{"n": 9007199254740993, "s": "<&>"}`)}, `{"n": 9007199254740993, "s": "<&>"}`},
		{client.Job{Payload: big}, `{"n":12345678901234567890,"s":"<&>","e":1.0}`},
		{client.Job{Payload: map[string]string{"to": "ä<"}}, `{"to":"ä<"}`},
		{client.Job{Payload: json.RawMessage(`null`)}, `{"payload":null,`},
		{client.Job{PayloadBytes: []byte{}, ContentType: "text/plain"}, `"payload_base64":""`},
		{client.Job{PayloadBytes: []byte("hi"), Lane: "ü"}, `"payload_base64":"aGk="`},
	} {
		tt.job.ID = "x"
		if _, err := c.AppendMany(t.Context(), "q", []client.Job{tt.job}); err != nil {
			t.Error(err)
		}
		if body := s.bodies["x"]; !strings.Contains(body, tt.want) || !json.Valid([]byte(body)) {
			t.Errorf("%s lacks %s", body, tt.want)
		}
	}
	for _, bad := range []client.Job{
		{}, {Payload: json.RawMessage(`1,"id":"y"`)}, {Payload: 1, PayloadBytes: []byte("x")},
	} {
		if _, err := c.Append(t.Context(), "q", bad); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}

func TestLinesCutShort(t *testing.T) {
	for body, lost := range map[string]bool{
		`{"line":1,"status":202}` + "\n" + `{"line":2,"sta`: true,
		"hello": false,
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		_, err := c.AppendLines(t.Context(), "q", bytes.Fields([]byte("{} {}")))
		var gone *client.Unreachable
		if err == nil || errors.As(err, &gone) != lost {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestWait(t *testing.T) {
	states := []string{"waiting", "leased", "delivered"}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"id":"a","state":%q,"eta":{"at":"2026-01-02T15:04:05Z","exact":true}}`, states[0])
		states = states[1:]
	})
	if j, err := c.Wait(t.Context(), "q", "a"); err != nil || j.State != client.StateDelivered || len(states) != 0 {
		t.Errorf("%+v, %v", j, err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Wait asks every 5 s, since the server's clock may be set ahead.
func TestWaitForAJobThatIsFarAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		state := "waiting"
		hc := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			text := fmt.Sprintf(`{"state":%q,"eta":{"at":%q}}`, state, begun.Add(time.Hour).Format(time.RFC3339))
			state = "delivered"
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}, nil
		})}
		c, err := client.New("http://penstock.invalid", client.WithHTTPClient(hc), client.WithToken(""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(t.Context(), "q", "a"); err != nil || time.Since(begun) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestJobsOfManyPages(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, map[string]string{
			"":  `{"jobs":[{"id":"a"},{"id":"b"}],"next":"b"}`,
			"b": `{"jobs":[],"next":"c"}`,
			"c": `{"jobs":[{"id":"c"}]}`,
		}[r.URL.Query().Get("after")])
	})
	var ids []string
	for j, err := range c.Jobs(t.Context(), "q", client.List{State: client.StateDead}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	if strings.Join(ids, "") != "abc" {
		t.Error(ids)
	}
}
