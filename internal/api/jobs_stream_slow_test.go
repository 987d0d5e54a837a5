package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/api"
)

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
