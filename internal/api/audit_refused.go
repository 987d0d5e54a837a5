package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/names"
)

const (
	// refusedEvery is how often at most the same refusal to the same client is recorded.
	refusedEvery = time.Minute
	// maxRefused bounds how many different ones are counted at a time; what comes on top is counted as one.
	maxRefused = 10_000
	// maxDue is how many may wait for the store; what comes on top is one entry. All that are counted may come at once.
	maxDue = maxRefused + 100
	// recordTimeout is how long the store may take to record one.
	recordTimeout = 5 * time.Second
)

// refusals records in the store which changes were refused, and to whom: at once the first time, then at most once a
// minute for each caller, operation and reason, with how many there were. All unauthenticated requests together are one
// entry a minute: their addresses, paths and all else can be chosen.
type refusals struct {
	store  audit.Log
	logger *slog.Logger

	mu      sync.Mutex
	counts  map[refusalKey]*refusalCount
	timer   *time.Timer // until the counts are recorded; nil if there are none
	due     []audit.Entry
	rest    audit.Entry   // stands for those that due has no room for; of Times 0 there are none
	writing chan struct{} // a goroutine records what is due, and closes it when nothing is; nil if there is none
}

// refusalKey is what is counted together. The zero refusalKey is of all unauthenticated requests.
type refusalKey struct{ who, operation, reason string }

// refusalCount is what was refused since it was recorded last.
type refusalCount struct {
	since time.Time // of the last record
	last  audit.Entry
	times int64
}

// add notes a refusal, and does not wait for the store. entry is asked only if it is recorded, or is the first that
// will be.
func (r *refusals) add(key refusalKey, entry func() audit.Entry) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts[key]
	if c == nil && len(r.counts) >= maxRefused {
		key = refusalKey{operation: key.operation}
		c = r.counts[key]
	}
	if c != nil && now.Sub(c.since) < refusedEvery {
		if c.times++; c.times == 1 {
			c.last = entry()
		}
		r.flushIn(refusedEvery - now.Sub(c.since))
		return
	}
	e := entry()
	e.Times = 1
	if c != nil {
		e.Times += c.times
	}
	if r.counts == nil {
		r.counts = map[refusalKey]*refusalCount{}
	}
	r.counts[key] = &refusalCount{since: now}
	r.record(e)
}

// flushIn sees to it that flush is called once that time has passed, or sooner. r.mu is held.
func (r *refusals) flushIn(d time.Duration) {
	if r.timer == nil {
		r.timer = time.AfterFunc(d, func() { r.flush(refusedEvery) })
	}
}

// flush records what was counted and not recorded, if its last record is that old, and forgets what is over.
func (r *refusals) flush(old time.Duration) {
	now, next := time.Now(), refusedEvery
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, c := range r.counts {
		switch age := now.Sub(c.since); {
		case age < old:
			next = min(next, refusedEvery-age)
		case c.times > 0:
			c.last.Times = c.times
			r.record(c.last)
			c.since, c.times = now, 0
		case age >= refusedEvery:
			delete(r.counts, key)
		}
	}
	r.timer = nil
	if len(r.counts) > 0 {
		r.flushIn(next)
	}
}

// stop records what was counted, and starts nothing more. It waits for that as long as the store may take for one.
func (r *refusals) stop() {
	r.flush(0)
	r.mu.Lock()
	if r.timer != nil {
		r.timer.Stop()
	}
	writing := r.writing
	r.mu.Unlock()
	if writing == nil {
		return
	}
	select {
	case <-writing:
	case <-time.After(recordTimeout):
		r.logger.Warn("refusals could not be recorded before the end: the store does not answer")
	}
}

// record has an entry recorded. r.mu is held.
func (r *refusals) record(e audit.Entry) {
	if len(r.due) >= maxDue {
		if r.rest.Times == 0 {
			r.rest = audit.Entry{
				Of: e.Of, What: e.What, Refused: e.Refused, Detail: "this and others, of which the store could not be told in time",
			}
		}
		r.rest.Times += e.Times
		return
	}
	r.due = append(r.due, e)
	if r.writing == nil {
		r.writing = make(chan struct{})
		go r.write(r.writing)
	}
}

// write records what is due, until nothing is.
func (r *refusals) write(done chan struct{}) {
	defer close(done)
	for {
		r.mu.Lock()
		if len(r.due) == 0 && r.rest.Times > 0 {
			r.due, r.rest = append(r.due, r.rest), audit.Entry{}
		}
		if len(r.due) == 0 {
			r.due, r.writing = nil, nil
			r.mu.Unlock()
			return
		}
		e := r.due[0]
		r.due = r.due[1:]
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		err := r.store.Record(ctx, e)
		cancel()
		if err != nil {
			r.logger.Warn(
				"a refusal could not be recorded", "operation", e.Actor.Operation, "reason", e.Refused, "times", e.Times,
				"error", err,
			)
		}
	}
}

// noteRefusal notes that a request was refused, unless it would have changed nothing, or it is not known whether it
// did.
func (h *handler) noteRefusal(rt *route, w http.ResponseWriter, r *http.Request, p *Problem) {
	if rt.effect == reads || p.Reason.Status >= http.StatusInternalServerError {
		return
	}
	key := refusalKey{}
	if id := caller(r.Context()); id != nil {
		key = refusalKey{id.Actor.Name, rt.operation, p.Reason.Code}
	}
	h.refusals.add(key, func() audit.Entry {
		of, name := rt.about(r)
		actor := actorOf(rt, w, r)
		if audit.ValidateNote(actor.Note) != nil {
			actor.Note = ""
		}
		return audit.Entry{
			Actor: actor, Of: of, Name: name, What: changekind.Refused, Refused: p.Reason.Code, Detail: p.Field,
		}
	})
}

// NoteGuarded tells the access log that the Guard refused a request, and the audit log, unless that would have changed
// nothing. It is unauthenticated: see refusals.
func (a *API) NoteGuarded(r *http.Request, p *Problem) {
	if a.access != nil {
		logGuarded(a.access, r, p)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return
	}
	a.refusals.add(refusalKey{}, func() audit.Entry {
		detail := r.Host
		if p.Reason == ReasonCrossSite {
			detail = r.Header.Get("Origin")
		}
		path := r.URL.Path
		if auth.TokenInURL(r.URL) {
			path = secrets.Hidden
		}
		return audit.Entry{
			Actor: audit.Actor{Address: addressOf(r)}, Of: guarded, Name: clip.Quote(r.Method+" "+path, 80),
			What: changekind.Refused, Refused: p.Reason.Code, Detail: clip.Quote(detail, 80),
		}
	})
}

// guarded is what entries are of that stand for requests which the Guard refused.
const guarded = "request"

// about is the kind and the name of what a request is about, as far as its path says.
func (rt *route) about(r *http.Request) (of, name string) {
	collection, _, _ := strings.Cut(strings.TrimPrefix(rt.pattern, "/v1/"), "/")
	of = strings.TrimSuffix(collection, "s") // queues, rules, apps, tokens, subjects
	name = r.PathValue(of)
	if len(name) > audit.MaxActorBytes || name != "" && names.ValidateID(name) != nil {
		name = clip.Quote(name, 80) // it can be anything
	}
	return of, name
}

// noting notes with which problem a request was answered.
type noting struct {
	http.ResponseWriter
	refused *Problem
}

func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// noteProblem tells those that note it with which problem a request is answered.
func noteProblem(w http.ResponseWriter, p *Problem) {
	if n, ok := w.(*noting); ok {
		n.refused, w = p, n.ResponseWriter
	}
	if a, ok := w.(*accessed); ok {
		a.refused = p
	}
}
