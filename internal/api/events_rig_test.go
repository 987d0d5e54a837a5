package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
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

// Fifty who follow cost the store no more than one: below 20 commands a second more than nobody does.
func TestEventsLoadOnRedis(t *testing.T) {
	const partitions, followers, most = 16, 50, 20
	c := redistest.New(t, redistest.Options{}).Client()
	e, err := redisq.OpenClient(t.Context(), c, redisq.Options{
		Init: true, Partitions: partitions, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	for n := range 100 {
		if _, err := e.Put(t.Context(), queue.Spec{Name: fmt.Sprintf("queue-%03d", n), Capacity: 100}, 0); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{t: t}
	s := survey.New(e, survey.Options{})
	f.serveOver(e, api.Options{Survey: s})
	if err := s.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	var streams []*eventStream
	for n := range followers {
		st := follow(f, fmt.Sprintf("/v1/queues/queue-%03d/events", n))
		st.next("reset")
		streams = append(streams, st)
	}
	reading := func() int {
		t.Helper()
		before := commandsOf(t, c)
		if err := s.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		return commandsOf(t, c) - before
	}
	reading() // and now nothing is new
	commands := 0
	await.Until(t, "a reading between two steps", func() bool { commands = reading(); return commands == partitions })
	// Read once a second in place of once a step.
	if more := float64(commands) * (1 - 1/survey.Step.Seconds()); more >= most {
		t.Errorf("%.1f commands a second more", more)
	}
	// Nor do the streams ask for anything themselves.
	before := commandsOf(t, c)
	if err := e.Pause(t.Context(), "queue-007", queue.Pause{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	streams[7].next("paused")
	if commands := commandsOf(t, c) - before; commands > 2*partitions+2 {
		t.Errorf("%d commands for one pause", commands)
	}
}

// commandsOf is how many scripts the server ran.
func commandsOf(t *testing.T, c redis.UniversalClient) int {
	t.Helper()
	text, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, found := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		calls, _ := strconv.Atoi(found[1])
		n += calls
	}
	return n
}
