package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/api"
)

// slow is a body of n lines made as it is read.
type slow struct {
	n, made int
	rest    []byte
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if s.made == s.n {
			return 0, io.EOF
		}
		for i := 0; i < 100 && s.made < s.n; i++ {
			s.made++
			s.rest = fmt.Appendf(
				s.rest, "{\"payload\":{\"to\":\"someone%d@example.com\",\"text\":%q},\"id\":\"job-%d\"}\n", s.made,
				"hello there, how are you", s.made,
			)
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func TestStreamConstantMemory(t *testing.T) {
	f := serve(t, api.Options{})
	f.serveOver(forgetful{f.engine}, api.Options{})
	heap := func() uint64 { // the least of some: what others allocate in between is not kept
		least := uint64(math.MaxUint64)
		for range 3 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			least = min(least, m.HeapAlloc)
		}
		return least
	}
	const n = 200_000 // some 20 MB, both of lines and of answers
	req, _ := http.NewRequest(http.MethodPost, f.url+jobs, &slow{n: n})
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answers := bufio.NewScanner(resp.Body)
	got, early, most := 0, uint64(0), uint64(0)
	for answers.Scan() {
		got++
		switch {
		case got == 5000:
			early = heap()
		case got%40_000 == 0:
			most = max(most, heap())
		}
		if !strings.HasPrefix(answers.Text(), fmt.Sprintf(`{"line":%d,"status":202,"id":"job-%d"`, got, got)) {
			t.Fatalf("answer %d is %s", got, answers.Text())
		}
	}
	if answers.Err() != nil || got != n {
		t.Fatalf("%d answers, %v", got, answers.Err())
	}
	if most > early+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", early, most)
	}
}

func TestStreamCutShort(t *testing.T) {
	f := serve(t, api.Options{})
	feed, answers, _ := f.open(jobs)
	say(t, feed, `{"payload":1,"id":"a"}`+"\n"+`{"payload":1,"id":"b"}`)
	wantLine(t, line(t, answers), "status", 202, "id", "a")
	_ = feed.CloseWithError(errors.New("the client is gone"))
	_, _ = io.ReadAll(answers)
	f.close()
	if ids := f.engine.queues["email"].ids; len(ids) != 1 {
		t.Errorf("%v were taken in; a line without its end must not be", ids)
	}
}

// A stopping server ends its streams and says so.
func TestStreamStopping(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	f := serve(t, api.Options{Stopping: ctx})
	feed, answers, _ := f.open(jobs)
	say(t, feed, `{"payload":1,"id":"a"}`+"\n")
	wantLine(t, line(t, answers), "status", 202, "id", "a")
	stop()
	wantLine(t, line(t, answers), "line", 2, "status", 503, "reason", "stopping")
	f.do("GET", "/readyz", "").want(t, 503, "reason", "stopping")
}

// A client that never reads its answers is cut off.
func TestStreamUnreadAnswers(t *testing.T) {
	f := serve(t, api.Options{AnswerTimeout: 200 * time.Millisecond})
	f.serveOver(forgetful{f.engine}, api.Options{AnswerTimeout: 200 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.WriteString(
		conn,
		"POST "+jobs+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100000000000\r\n\r\n",
	)
	chunk := strings.Repeat("{\"payload\":1}\n", 10_000)
	for err == nil {
		_, err = io.WriteString(conn, chunk)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server reads on, or waits, for a client that never reads")
	}
}

// A refusal does not wait for a body that never comes.
func TestStreamRefusedAtOnce(t *testing.T) {
	f := serve(t, api.Options{})
	_, answers, resp := f.open("/v1/queues/sms/jobs")
	text, err := io.ReadAll(answers)
	if resp.status != http.StatusNotFound || err != nil || !strings.Contains(string(text), `"unknown_queue"`) {
		t.Errorf("%d %s, %v", resp.status, text, err)
	}
}

func TestStreamLimitOfStreams(t *testing.T) {
	f := serve(t, api.Options{MaxStreams: 1})
	feed, answers, _ := f.open(jobs)
	f.do("POST", jobs, "", "Content-Type", "application/x-ndjson").want(t, 503, "reason", "overloaded")
	_ = feed.Close()
	_, _ = io.ReadAll(answers)
	poll(t, func() bool {
		return f.do("POST", jobs, "", "Content-Type", "application/x-ndjson").status == 200
	})
	f.do("POST", "/v1/queues/sms/jobs", "", "Content-Type", "application/x-ndjson").want(t, 404, "reason", "unknown_queue")
}

// deadlined is a duplex whose request is read from a connection, with its deadlines.
type deadlined struct {
	duplex
	in net.Conn
}

func (d deadlined) SetReadDeadline(t time.Time) error { return d.in.SetReadDeadline(t) }

// openUnserved starts a stream without a network, so that its timeouts pass in a bubble's time.
func (f *fixture) openUnserved(o api.Options) (feed net.Conn, answers io.ReadCloser) {
	f.t.Helper()
	handler := held(f.t, api.New(f.engine, o))
	in, feed := net.Pipe()
	answers, out := io.Pipe()
	req := httptest.NewRequest(http.MethodPost, jobs, in)
	req.Header.Set("Content-Type", "application/x-ndjson")
	go func() {
		handler.ServeHTTP(deadlined{duplex{httptest.NewRecorder(), out}, in}, req)
		_, _ = in.Close(), out.Close()
	}()
	f.t.Cleanup(func() { _, _ = feed.Close(), answers.Close() })
	return feed, answers
}

// drip writes a text every 10 ms until the stream is closed, and closes what it returns then.
func drip(feed io.Writer, text string) (over chan struct{}) {
	over = make(chan struct{})
	go func() {
		defer close(over)
		var err error
		for err == nil {
			_, err = io.WriteString(feed, text)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return over
}

// What is no job keeps no stream open: blank lines, and lines that are refused.
func TestStreamWithoutJobs(t *testing.T) {
	for name, line1 := range map[string]string{"blank": "\n", "refused": "{}\n"} {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 300 * time.Millisecond
			feed, out := unserved(t).openUnserved(api.Options{BodyTimeout: timeout})
			answers := bufio.NewReader(out)
			say(t, feed, `{"payload":1,"id":"a"}`+"\n")
			wantLine(t, line(t, answers), "status", 202)
			begun := time.Now()
			fed := drip(feed, line1)
			all, _ := io.ReadAll(answers)
			if took := time.Since(begun); took != timeout || !strings.Contains(string(all), `"body_timeout"`) {
				t.Errorf("%s lines keep a stream open for %v, with a timeout of %v: %s", name, took, timeout, all)
			}
			<-fed
		})
	}
}

// Jobs do, for as long as they come.
func TestStreamOfSlowJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed, out := unserved(t).openUnserved(api.Options{BodyTimeout: 500 * time.Millisecond})
		answers := bufio.NewReader(out)
		for i := range 4 {
			say(t, feed, fmt.Sprintf(`{"payload":1,"id":"%d"}`+"\n", i))
			wantLine(t, line(t, answers), "status", 202)
			time.Sleep(499 * time.Millisecond)
		}
		_ = feed.Close()
		if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
			t.Errorf("after the last answer: %q, %v", rest, err)
		}
	})
}

// A line that takes too long ends the stream, whether bytes drip in or not; what
// was whole before it stands.
func TestStreamSlowLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 300 * time.Millisecond
		feed, out := unserved(t).openUnserved(api.Options{BodyTimeout: timeout})
		answers := bufio.NewReader(out)
		say(t, feed, `{"payload":1,"id":"a"}`+"\n")
		wantLine(t, line(t, answers), "status", 202)
		begun := time.Now()
		dripped := drip(feed, " ")
		wantLine(t, line(t, answers), "line", 2, "status", 408, "reason", "body_timeout")
		if took := time.Since(begun); took != timeout {
			t.Errorf("it took %v, with a timeout of %v", took, timeout)
		}
		if rest, _ := io.ReadAll(answers); len(rest) > 0 {
			t.Errorf("after the end: %q", rest)
		}
		<-dripped // it ends, because nothing can be sent any more
	})
}

// What is no job keeps no stream open, however slowly its answers are read.
func TestStreamWithoutJobsSlowlyRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, most = 300 * time.Millisecond, 10 * time.Second
		feed, answers := unserved(t).openUnserved(api.Options{BodyTimeout: timeout, AnswerTimeout: time.Minute})
		go func() {
			chunk := bytes.Repeat([]byte("{}\n"), 1000)
			for {
				if _, err := feed.Write(chunk); err != nil {
					return
				}
			}
		}()
		var last []byte
		piece := make([]byte, 8<<10)
		for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			n, err := answers.Read(piece)
			last = append(last, piece[:n]...)
			last = last[max(0, len(last)-1000):]
			if err != nil {
				break
			}
			if time.Since(begun) > most {
				t.Fatalf("a stream without jobs is open for %v, with a timeout of %v", most, timeout)
			}
		}
		if !bytes.Contains(last, []byte(`"body_timeout"`)) {
			t.Errorf("it ended with %s", last)
		}
	})
}
