package api

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/survey"
)

const (
	// heartbeat is how often a stream says something, so that nobody takes it for dead.
	heartbeat = 15 * time.Second
	// eventStreamCost is what a stream of events holds.
	eventStreamCost = 128 << 10
	maxEventID      = 64
)

var typeEvents = []string{"text/event-stream"}

// allEvents follows all queues that whoever asks may see, or those that he names.
func (h *handler) allEvents(w http.ResponseWriter, r *http.Request) {
	var names []string
	if r.URL.Query().Has("queues") {
		var p *Problem
		if names, p = readNames(r); p != nil {
			p.write(w)
			return
		}
	}
	h.follow(w, r, names)
}

// queueEvents follows one queue.
func (h *handler) queueEvents(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	if h.o.Survey.Latest().Row(name) == nil { // it may have been made since
		if _, err := h.engine.Get(r.Context(), name); err != nil {
			h.fail(w, err, name)
			return
		}
	}
	h.follow(w, r, []string{name})
}

// follow answers with a stream of events until the client leaves, about queues of some names, or all.
func (h *handler) follow(w http.ResponseWriter, r *http.Request, names []string) {
	after, p := readAfter(r)
	if p != nil {
		p.write(w)
		return
	}
	leave, p := h.openStream(r, eventStreamCost)
	if p != nil {
		p.write(w)
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
	case errors.Is(s.err, os.ErrDeadlineExceeded): // nobody read it
		h.o.Survey.Drop()
	case s.err != nil:
	case p != nil:
		s.end(p)
	case h.o.Stopping.Err() != nil:
		s.end(&Problem{
			Reason: ReasonStopping, RetryAfter: retryUnavailable, Detail: "this server is stopping; ask again for what follows",
		})
	}
}

// openStream lets a request be a stream that costs so much until leave is called, unless there are too many.
func (h *handler) openStream(r *http.Request, cost int64) (leave func(), p *Problem) {
	free, p := h.open.open(r.Context(), "streams", limitStreams)
	if p != nil {
		return nil, p
	}
	account := h.account(r)
	places := h.streams.Open(account.Client())
	if err := places.Take(1); err != nil {
		places.Close()
		free()
		p := overBudget(err)
		p.Detail = "too many streams are open at once"
		if p.Reason == ReasonOverShare {
			p.Detail += " from your address; use those that are open"
		}
		return nil, p
	}
	giveUp := func() {
		places.Free(1)
		places.Close()
		free()
	}
	if err := account.Take(cost); err != nil {
		giveUp()
		return nil, overBudget(err)
	}
	return func() { account.Free(cost); giveUp() }, nil
}

// place is where in the events of an ingress a client is.
type place struct {
	instance string
	id       int64
}

func (p place) String() string { return p.instance + "-" + strconv.FormatInt(p.id, 10) }

// readAfter reads behind which event a stream is to begin. What no ingress has ever said is where none is.
func readAfter(r *http.Request) (at place, p *Problem) {
	id := r.Header.Get("Last-Event-ID") // as a browser sends that has lost the stream: it knows better than the address
	if id == "" {
		if values := r.URL.Query()["after"]; len(values) > 1 {
			return at, &Problem{Reason: ReasonDuplicateField, Field: "after", Detail: "is given twice"}
		}
		id = r.URL.Query().Get("after")
	}
	if len(id) > maxEventID {
		return at, badField("after", "must be the id of an event")
	}
	instance, number, found := strings.Cut(id, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if !found || err != nil || n < 0 {
		return place{}, nil
	}
	return place{instance, n}, nil
}

// eventStream writes events to one client. It has no buffer of events: a client that does not read delays nobody, and
// when it reads again it is told how everything is.
type eventStream struct {
	survey   *survey.Survey
	w        http.ResponseWriter
	rc       *http.ResponseController
	patience time.Duration
	who      context.Context // whose request it is
	seen     func(name string) bool
	names    []string               // nil is all
	sent     map[string]*survey.Row // of names, as the client knows them
	out      []byte
	err      error
}

// begin sends the head.
func (s *eventStream) begin() {
	// The server reads ahead to notice that the client goes away; a deadline that passes there would look like that. An
	// error means that there is none.
	_ = s.rc.SetReadDeadline(time.Time{})
	head := s.w.Header()
	head["Content-Type"], head["Cache-Control"] = typeEvents, noStore
	head.Set("X-Accel-Buffering", "no") // nginx would keep events until it has a page of them
	s.w.WriteHeader(http.StatusOK)
	s.out = append(s.out, "retry: 2000\n\n"...)
	s.flush()
}

// run writes what happens until ctx ends or the client does not read.
func (s *eventStream) run(ctx context.Context, after place) {
	known := after.instance == s.survey.Instance()
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for {
		snapshot := s.survey.Latest()
		events, last, all := s.survey.Events(after.id)
		if known && all {
			s.tell(events)
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

// flush writes what is to be written.
func (s *eventStream) flush() {
	if s.err != nil {
		return
	}
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.patience)) // an error means that there is none
	if _, s.err = s.w.Write(s.out); s.err == nil {
		s.err = s.rc.Flush()
	}
	if s.out = s.out[:0]; cap(s.out) > keepOut {
		s.out = nil
	}
}
