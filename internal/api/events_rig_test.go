package api_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// frame is an event of a stream as a browser has it.
type frame struct {
	id, event string
	data      map[string]any
}

// eventStream is one that a test reads.
type eventStream struct {
	t      *testing.T
	answer *answer
	body   io.ReadCloser
	frames chan frame // closed at its end
}

// follow begins a stream of events, or has been refused one.
func follow(f *fixture, path string, header ...string) *eventStream {
	f.t.Helper()
	req, err := http.NewRequest(http.MethodGet, f.url+path, http.NoBody)
	if err != nil {
		f.t.Fatal(err)
	}
	for n := 0; n < len(header); n += 2 {
		if header[n+1] != "Bearer " {
			req.Header.Set(header[n], header[n+1])
		}
	}
	resp, err := f.client.Do(req) //nolint:bodyclose // close does
	if err != nil {
		f.t.Fatal(err)
	}
	s := &eventStream{
		t: f.t, answer: &answer{status: resp.StatusCode, header: resp.Header}, body: resp.Body,
		frames: make(chan frame, 1000),
	}
	if resp.StatusCode != http.StatusOK {
		defer s.close()
		text, _ := io.ReadAll(resp.Body)
		s.answer.text = string(text)
		if err := json.Unmarshal(text, &s.answer.body); err != nil {
			f.t.Fatalf("%s: %v", text, err)
		}
		return s
	}
	f.t.Cleanup(s.close)
	go s.read()
	return s
}

func (s *eventStream) close() { _ = s.body.Close() }

func (s *eventStream) read() {
	defer close(s.frames)
	lines := bufio.NewScanner(s.body)
	lines.Buffer(nil, 16<<20)
	var f frame
	var data strings.Builder
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			data.WriteString(value + "\n")
		case "":
			if f.event != "" {
				if err := json.Unmarshal([]byte(data.String()), &f.data); err != nil {
					s.t.Errorf("%s: %v", data.String(), err)
				}
				s.frames <- f
			}
			f = frame{}
			data.Reset()
		}
	}
}

// next returns the next event, which must be of that kind; events of info between are passed over, unless one of them
// is wanted.
func (s *eventStream) next(kind string) frame {
	s.t.Helper()
	for {
		select {
		case f, ok := <-s.frames:
			switch {
			case !ok:
				s.t.Fatalf("the stream has ended, want %s", kind)
			case f.event == "info" && kind != "info":
				continue
			case f.event != kind:
				s.t.Fatalf("got %+v, want %s", f, kind)
			}
			return f
		case <-time.After(20 * time.Second):
			s.t.Fatalf("no event for 20 s, want %s", kind)
		}
	}
}

// names are those of the queues in an event.
func (f frame) names() string {
	var names []string
	rows, _ := f.data["queues"].([]any)
	for _, row := range rows {
		fields, _ := row.(map[string]any)
		name, _ := fields["name"].(string)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}
