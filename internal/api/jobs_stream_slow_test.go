package api_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
)

// deadlined is a duplex whose request is read from a connection, with its deadlines.
type deadlined struct {
	duplex
	in net.Conn
}

func (d deadlined) SetReadDeadline(t time.Time) error { return d.in.SetReadDeadline(t) }

// What is no job keeps no stream open, however slowly its answers are read.
func TestStreamWithoutJobsSlowlyRead(t *testing.T) {
	f := serve(t, api.Options{})
	handler := held(t, api.New(f.engine, api.Options{BodyTimeout: 300 * time.Millisecond, AnswerTimeout: time.Minute}))
	in, feed := net.Pipe()
	answers, out := io.Pipe()
	req := httptest.NewRequest(http.MethodPost, jobs, in)
	req.Header.Set("Content-Type", "application/x-ndjson")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		handler.ServeHTTP(deadlined{duplex{httptest.NewRecorder(), out}, in}, req)
		_, _ = in.Close(), out.Close()
	}()
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
	for until := time.Now().Add(10 * time.Second); ; {
		n, err := answers.Read(piece)
		last = append(last, piece[:n]...)
		last = last[max(0, len(last)-1000):]
		if err != nil {
			break
		}
		if time.Now().After(until) {
			t.Error("a stream without jobs is open for 10 s, with a timeout of 300 ms")
			_, _ = feed.Close(), answers.Close()
			break
		}
		time.Sleep(10 * time.Millisecond) // the pace of the reader, nothing is waited for
	}
	<-ended
	if !t.Failed() && !bytes.Contains(last, []byte(`"body_timeout"`)) {
		t.Errorf("it ended with %s", last)
	}
	_ = feed.Close()
}
