package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
)

const (
	// heartbeat is how often an idle stream sends a comment, so that proxies keep it open.
	heartbeat = 15 * time.Second
	// eventStreamCost is the memory of a stream of events.
	eventStreamCost = 128 << 10
	maxEventID      = 64
)

var typeEvents = []string{"text/event-stream"}

// allEvents streams the events of all queues the caller may see, or of the queues named.
func (h *handler) allEvents(w http.ResponseWriter, r *http.Request) {
	var names []string
	if r.URL.Query().Has("queues") {
		var p *httpio.Problem
		if names, p = readNames(r); p != nil {
			p.Write(w)
			return
		}
	}
	h.follow(w, r, names)
}

// queueEvents streams the events of one queue.
func (h *handler) queueEvents(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	if h.o.Survey.Latest().Row(name) == nil { // it may be newer than the survey
		if _, err := h.engine.Get(r.Context(), name); err != nil {
			h.fail(w, err, name)
			return
		}
	}
	h.follow(w, r, []string{name})
}

// follow streams events until the client leaves: of the queues named, or of all if names is nil.
func (h *handler) follow(w http.ResponseWriter, r *http.Request, names []string) {
	after, p := readAfter(r)
	if p != nil {
		p.Write(w)
		return
	}
	leave, p := h.openStream(r, eventStreamCost)
	if p != nil {
		p.Write(w)
		return
	}
	defer leave()
	if _, err := h.o.Survey.First(r.Context()); err != nil {
		h.fail(w, err, "")
		return
	}
	ctx, unwatch := h.watched(r.Context())
	defer unwatch()
	ctx, cancel := h.untilStop(ctx)
	defer cancel()
	defer h.o.Survey.Watch()()

	s := &eventStream{
		survey: h.o.Survey, w: w, rc: http.NewResponseController(w), patience: h.o.AnswerTimeout, names: names,
		sent: make(map[string]*survey.Row, len(names)), who: r.Context(), seen: mayView(r.Context()),
	}
	s.begin()
	if r.Method == http.MethodHead {
		return
	}
	s.run(ctx, after)
	switch p := lost(ctx, nil); {
	case errors.Is(s.err, os.ErrDeadlineExceeded): // the client did not read
		h.o.Survey.Drop()
	case s.err != nil:
	case p != nil:
		s.end(p)
	case h.o.Stopping.Err() != nil:
		s.end(&httpio.Problem{
			Reason: httpio.ReasonStopping, RetryAfter: httpio.RetryUnavailable, Detail: "this server is stopping; " +
				"reconnect to continue",
		})
	}
}

// place is a position in the events of an ingress.
type place struct {
	instance string
	id       int64
}

func (p place) String() string { return p.instance + "-" + strconv.FormatInt(p.id, 10) }

// readAfter reads the event after which a stream continues. An unknown id means the beginning.
func readAfter(r *http.Request) (at place, p *httpio.Problem) {
	id := r.Header.Get("Last-Event-ID") // a reconnecting browser sends it; it is newer than the URL
	if id == "" {
		if values := r.URL.Query()["after"]; len(values) > 1 {
			return at, httpio.Duplicate("after")
		}
		id = r.URL.Query().Get("after")
	}
	if len(id) > maxEventID {
		return at, httpio.BadField("after", "must be the id of an event")
	}
	instance, number, found := strings.Cut(id, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if !found || err != nil || n < 0 {
		return place{}, nil
	}
	return place{instance, n}, nil
}

// eventStream writes events to one client. It buffers no events: a client that does not read delays nobody, and gets
// the present state when it reads again.
type eventStream struct {
	survey   *survey.Survey
	w        http.ResponseWriter
	rc       *http.ResponseController
	patience time.Duration
	who      context.Context // context of the request
	seen     func(name string) bool
	names    []string               // nil is all
	sent     map[string]*survey.Row // of names: the state that the client knows
	out      []byte
	err      error
}

// begin sends the headers.
func (s *eventStream) begin() {
	// The server reads ahead to notice that the client leaves; a read deadline would look like that. An error means that
	// there is no deadline.
	_ = s.rc.SetReadDeadline(time.Time{})
	head := s.w.Header()
	head["Content-Type"], head["Cache-Control"] = typeEvents, httpio.NoStore
	head.Set("X-Accel-Buffering", "no") // or nginx would collect a page of events first
	s.w.WriteHeader(http.StatusOK)
	s.out = append(s.out, "retry: 2000\n\n"...)
	s.flush()
}

// run writes events until ctx ends or the client stops reading.
func (s *eventStream) run(ctx context.Context, after place) {
	known := after.instance == s.survey.Instance()
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for {
		snapshot := s.survey.Latest()
		events, last, all := s.survey.Events(after.id)
		if known && all {
			s.writeEvents(events)
			s.info(s.survey.Latest())
		} else {
			s.reset(s.survey.Latest(), last)
		}
		known, after.id = true, last
		if len(s.out) > 0 {
			s.flush()
			beat.Reset(heartbeat)
		}
		if s.err != nil {
			return
		}
		for next := false; !next; {
			select {
			case <-ctx.Done():
				return
			case <-snapshot.Next():
				next = true
			case <-beat.C:
				s.out = append(s.out, ":\n\n"...)
				if s.flush(); s.err != nil {
					return
				}
				beat.Reset(heartbeat)
			}
		}
	}
}

// flush writes the buffer.
func (s *eventStream) flush() {
	if s.err != nil {
		return
	}
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.patience)) // an error means that there is no deadline
	if _, s.err = s.w.Write(s.out); s.err == nil {
		s.err = s.rc.Flush()
	}
	if s.out = s.out[:0]; cap(s.out) > maxKeptOutput {
		s.out = nil
	}
}

// flushEvents is how many bytes are collected before they are written.
const flushEvents = 32 << 10

// streamEvents are the events of a stream that survey.Kinds does not list.
var streamEvents = []struct{ kind, means string }{
	{"reset", "The state of all queues of the stream. A stream begins with it, unless it continues after an id."},
	{"info", "The queues named by the stream whose figures have changed. It has no id."},
	{"end", "The problem that ended the stream."},
}

// eventKinds returns the names of all events, and their meanings.
func eventKinds() (names, means []string) {
	kinds, of := survey.Kinds()
	for n, kind := range kinds {
		names, means = append(names, string(kind)), append(means, of[n])
	}
	for _, e := range streamEvents {
		names, means = append(names, e.kind), append(means, e.means)
	}
	return names, means
}

func (s *eventStream) about(name string) bool {
	return (s.names == nil || slices.Contains(s.names, name)) && (s.seen == nil || s.seen(name))
}

// writeEvents writes events.
func (s *eventStream) writeEvents(events []survey.Event) {
	for n := range events {
		e := &events[n]
		if !s.about(e.Queue) {
			continue
		}
		event := wire.Event{Kind: string(e.Kind), Queue: e.Queue, At: e.At.UTC()}
		if e.Kind != survey.Deleted {
			row := shownRowTo(s.who, e.Row)
			event.Row = &row
		}
		if s.names != nil {
			s.sent[e.Queue] = e.Row
		}
		s.frame(event.Kind, e.ID, event)
		s.spill()
	}
}

// info writes the named queues whose state has changed.
func (s *eventStream) info(now *survey.Snapshot) {
	rows := wire.Rows{AsOf: now.At.UTC()}
	for _, name := range s.names {
		row := now.Row(name)
		if row == nil || s.sent[name] == row || !s.about(name) {
			continue
		}
		s.sent[name] = row
		rows.Queues = append(rows.Queues, shownRowTo(s.who, row))
	}
	if len(rows.Queues) > 0 {
		s.frame("info", 0, rows)
	}
}

// reset writes the state of all queues, one line each. It holds only a few of them in memory.
func (s *eventStream) reset(now *survey.Snapshot, last int64) {
	s.head("reset", last)
	s.out = append(s.out, `data: {"as_of":"`...)
	s.out = now.At.UTC().AppendFormat(s.out, time.RFC3339Nano)
	s.out = append(s.out, `","queues":[`...)
	clear(s.sent)
	first := true
	write := func(row *survey.Row) {
		if row == nil || !s.about(row.Name) || s.err != nil {
			return
		}
		if !first {
			s.out = append(s.out, ',')
		}
		first = false
		s.out = append(s.out, "\ndata: "...)
		s.json(shownRowTo(s.who, row))
		if s.names != nil {
			s.sent[row.Name] = row
		}
		s.spill()
	}
	if s.names == nil {
		for _, row := range now.Rows() {
			write(row)
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.names))) {
		write(now.Row(name))
	}
	s.out = append(s.out, "\ndata: ]}\n\n"...)
}

// end writes why the stream ends.
func (s *eventStream) end(p *httpio.Problem) {
	s.head("end", 0)
	s.out = append(s.out, "data: "...)
	s.out = append(p.AppendBody(s.out, ""), "\n\n"...)
	s.flush()
}

// frame appends an event. An id of 0 is left out.
func (s *eventStream) frame(kind string, id int64, data any) {
	s.head(kind, id)
	s.out = append(s.out, "data: "...)
	s.json(data)
	s.out = append(s.out, "\n\n"...)
}

func (s *eventStream) head(kind string, id int64) {
	if id > 0 || kind == "reset" {
		s.out = append(s.out, "id: "+place{s.survey.Instance(), id}.String()+"\n"...)
	}
	s.out = append(s.out, "event: "+kind+"\n"...)
}

// json appends a value on one line.
func (s *eventStream) json(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		s.err = err
		return
	}
	s.out = append(s.out, text...)
}

// spill flushes a large buffer.
func (s *eventStream) spill() {
	if len(s.out) >= flushEvents {
		s.flush()
	}
}
