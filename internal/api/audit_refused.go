package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/names"
)

const (
	// refusedEvery is the shortest time between two records of the same refusal to the same client.
	refusedEvery = time.Minute
	// maxRefused bounds the number of different refusals that are counted. The rest are counted together.
	maxRefused = 10_000
	// maxDue bounds the entries that wait for the store; the rest become one entry. It has room for all counts at once.
	maxDue = maxRefused + 100
	// recordTimeout is how long the store may take to record an entry.
	recordTimeout = 5 * time.Second
)

// refusals records refused changes in the store: the first of each caller, operation and reason immediately, further
// ones at most once a minute, with their number. All unauthenticated requests together make one entry a minute, since
// their senders can choose addresses, paths and everything else.
type refusals struct {
	store  audit.Log
	logger *slog.Logger

	mu      sync.Mutex
	counts  map[refusalKey]*refusalCount
	timer   *time.Timer // records the counts; nil if there are none
	due     []audit.Entry
	rest    audit.Entry   // the entries that due had no room for; none if its Times is 0
	writing chan struct{} // closed when all due entries are recorded; nil if there are none
}

// refusalKey identifies refusals that are counted together. The zero refusalKey is for all unauthenticated requests.
type refusalKey struct{ who, operation, reason string }

// refusalCount counts refusals since the last record.
type refusalCount struct {
	since time.Time // time of the last record
	last  audit.Entry
	times int64
}

// add counts a refusal. It does not wait for the store. entry is called only for a refusal that will be recorded.
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

// flushIn has flush called after d, or sooner. r.mu is held.
func (r *refusals) flushIn(d time.Duration) {
	if r.timer == nil {
		r.timer = time.AfterFunc(d, func() { r.flush(refusedEvery) })
	}
}

// flush records the refusals counted since the last record, where that record is at least old ago. It drops counts
// without new refusals.
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

// stop records the remaining counts. It waits at most as long as the store may take for one entry.
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
		r.logger.Warn("refusals could not be recorded before shutdown: the store does not answer")
	}
}

// record adds an entry for the store. r.mu is held.
func (r *refusals) record(e audit.Entry) {
	if len(r.due) >= maxDue {
		if r.rest.Times == 0 {
			r.rest = audit.Entry{
				Of: e.Of, What: e.What, Refused: e.Refused, Detail: "this and other refusals, which could not be recorded in time",
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

// write records entries until none is due.
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

// noteRefusal counts a refused request, unless it would have changed nothing or its outcome is unknown.
func (h *handler) noteRefusal(rt *route, w http.ResponseWriter, r *http.Request, p *httpio.Problem) {
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

// NoteGuarded logs and records a request that the Guard refused. Reads are not recorded. The request is
// unauthenticated; see refusals.
func (a *API) NoteGuarded(r *http.Request, p *httpio.Problem) {
	if a.requestLog != nil {
		httpio.LogRefused(a.requestLog, r, p)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return
	}
	a.refusals.add(refusalKey{}, func() audit.Entry {
		detail := r.Host
		if p.Reason == httpio.ReasonCrossSite {
			detail = r.Header.Get("Origin")
		}
		path := r.URL.Path
		if auth.TokenInURL(r.URL) {
			path = secrets.Hidden
		}
		return audit.Entry{
			Actor: audit.Actor{Address: httpio.Address(r)}, Of: guarded, Name: clip.Quote(r.Method+" "+path, 80),
			What: changekind.Refused, Refused: p.Reason.Code, Detail: clip.Quote(detail, 80),
		}
	})
}

// guarded is the kind of entries for requests that the Guard refused.
const guarded = "request"

// about returns the kind and name of a request's subject, from its path.
func (rt *route) about(r *http.Request) (of, name string) {
	collection, _, _ := strings.Cut(strings.TrimPrefix(rt.pattern, "/v1/"), "/")
	of = strings.TrimSuffix(collection, "s") // queues, rules, apps, tokens, subjects
	name = r.PathValue(of)
	if len(name) > audit.MaxActorBytes || name != "" && names.ValidateID(name) != nil {
		name = clip.Quote(name, 80) // it may be arbitrary text
	}
	return of, name
}
