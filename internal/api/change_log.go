package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// changeLog logs the changes that requests make. The engine records the same in its store; these lines are for the
// operators of this process. All steps of a change make one line, even if the last step fails.
type changeLog struct {
	queue.Engine
	log *slog.Logger
}

// changed is a change that a request made.
type changed struct {
	what          changekind.Kind
	of            queue.Subject
	name          string
	revision      int64
	jobs          int64
	detail, cause string
}

type changesKey struct{}

// changeList has the changes of one request.
type changeList struct {
	mu   sync.Mutex
	done []changed
}

// logged returns a context that collects changes. end logs them when the request is done.
func (h *handler) logged(ctx context.Context) (_ context.Context, end func()) {
	d := &changeList{}
	return context.WithValue(ctx, changesKey{}, d), func() {
		for _, done := range d.done {
			done.log(ctx, h.o.Logger)
		}
	}
}

// log writes a change to the log. actor is the authenticated name, claimed_by the caller's own note.
func (d *changed) log(ctx context.Context, log *slog.Logger) {
	actor, _ := audit.ActorOf(ctx)
	args := []any{"what", d.what, string(d.of), d.name, "claimed_by", actor.Note}
	if d.revision != 0 {
		args = append(args, "revision", d.revision)
	}
	if d.jobs != 0 {
		args = append(args, "jobs", d.jobs)
	}
	for _, more := range []struct{ name, value string }{
		{"detail", d.detail},
		{"reason", d.cause},
		{"actor", actor.Name},
		{"app", actor.App},
		{"token", actor.Token},
		{"address", actor.Address},
		{"request", actor.Request},
		{"operation", actor.Operation},
	} {
		if more.value != "" {
			args = append(args, more.name, more.value)
		}
	}
	log.InfoContext(ctx, "change", args...)
}

// add adds a change to the request's, or counts further jobs in an equal one.
func (l *changeLog) add(ctx context.Context, err error, d changed) {
	if err != nil {
		return
	}
	all, ok := ctx.Value(changesKey{}).(*changeList)
	if !ok {
		d.log(ctx, l.log)
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for i := range all.done {
		one := all.done[i]
		if one.jobs = d.jobs; one == d && d.jobs > 0 {
			all.done[i].jobs += d.jobs
			return
		}
	}
	all.done = append(all.done, d)
}

func (l *changeLog) put(
	ctx context.Context, of queue.Subject, name string, done queue.PutResult, what changekind.Kind, err error,
) (queue.PutResult, error) {
	if done.Created && what == changekind.Changed {
		what = changekind.Created
	}
	if done.Changed {
		l.add(ctx, err, changed{what: what, of: of, name: name, revision: done.Revision})
	}
	return done, err
}

func (l *changeLog) Put(ctx context.Context, s queue.Spec, expect int64) (queue.PutResult, error) {
	done, err := l.Engine.Put(ctx, s, expect)
	return l.put(ctx, queue.OfQueue, s.Name, done, changekind.Changed, err)
}

func (l *changeLog) Rollback(ctx context.Context, name string, revision, expect int64) (queue.PutResult, error) {
	done, err := l.Engine.Rollback(ctx, name, revision, expect)
	return l.put(ctx, queue.OfQueue, name, done, changekind.RolledBack, err)
}

func (l *changeLog) Delete(ctx context.Context, name string, expect int64, force bool) error {
	err := l.Engine.Delete(ctx, name, expect, force)
	l.add(ctx, err, changed{what: changekind.Deleted, of: queue.OfQueue, name: name})
	return err
}

func (l *changeLog) Pause(ctx context.Context, name string, p queue.Pause) error {
	err := l.Engine.Pause(ctx, name, p)
	l.add(ctx, err, changed{what: changekind.Paused, of: queue.OfQueue, name: name, cause: p.Reason})
	return err
}

func (l *changeLog) Resume(ctx context.Context, name string) error {
	err := l.Engine.Resume(ctx, name)
	l.add(ctx, err, changed{what: changekind.Resumed, of: queue.OfQueue, name: name})
	return err
}

// jobs adds a change of n jobs, unless n is 0.
func (l *changeLog) jobs(ctx context.Context, err error, what changekind.Kind, name, detail, reason string, n int) {
	if n > 0 {
		l.add(ctx, err, changed{what: what, of: queue.OfQueue, name: name, jobs: int64(n), detail: detail, cause: reason})
	}
}

func (l *changeLog) Purge(ctx context.Context, p queue.PurgeRequest) (queue.Purged, error) {
	done, err := l.Engine.Purge(ctx, p)
	l.jobs(ctx, err, changekind.Purged, p.Queue, p.Detail(), "", int(done.Jobs))
	return done, err
}

func (l *changeLog) Cancel(ctx context.Context, name, id string) (queue.State, error) {
	state, err := l.Engine.Cancel(ctx, name, id)
	if state == queue.Cancelled {
		l.jobs(ctx, err, changekind.Cancelled, name, id, "", 1)
	}
	return state, err
}

func (l *changeLog) Replay(ctx context.Context, name string, ids []string) ([]queue.ReplayOutcome, error) {
	outcomes, err := l.Engine.Replay(ctx, name, ids)
	l.jobs(ctx, err, changekind.Replayed, name, "", "", count(outcomes, queue.Replayed))
	return outcomes, err
}

func (l *changeLog) Forget(ctx context.Context, name string, ids []string) ([]bool, error) {
	dropped, err := l.Engine.Forget(ctx, name, ids)
	l.jobs(ctx, err, changekind.Forgotten, name, "", "", count(dropped, true))
	return dropped, err
}

func (l *changeLog) Decide(
	ctx context.Context, name string, ids []string, v queue.Verdict, reason string,
) ([]queue.State, error) {
	states, err := l.Engine.Decide(ctx, name, ids, v, reason)
	to := v.Decides()
	l.jobs(ctx, err, changekind.Decided, name, to.String(), reason, count(states, to))
	return states, err
}

func count[T comparable](list []T, what T) (n int) {
	for _, v := range list {
		if v == what {
			n++
		}
	}
	return n
}

func (l *changeLog) PutRule(ctx context.Context, rule rules.Rule, expect int64) (queue.PutResult, error) {
	done, err := l.Engine.PutRule(ctx, rule, expect)
	return l.put(ctx, queue.OfRule, rule.Name, done, changekind.Changed, err)
}

func (l *changeLog) DeleteRule(ctx context.Context, name string, expect int64) error {
	err := l.Engine.DeleteRule(ctx, name, expect)
	l.add(ctx, err, changed{what: changekind.Deleted, of: queue.OfRule, name: name})
	return err
}

func (l *changeLog) Take(ctx context.Context, name string, takes []rules.Take) ([]rules.Taken, error) {
	taken, err := l.Engine.Take(ctx, name, takes)
	entry, bad := ruleset.Audited(ctx, name, takes)
	if entry != nil && err == nil && bad == nil {
		n := 0
		for i := range taken {
			if taken[i].Err == nil && taken[i].Away == "" {
				n++
			}
		}
		if n > 0 {
			l.add(ctx, nil, changed{what: entry.What, of: queue.OfRule, name: name, detail: ruleset.OfKeys(n)})
		}
	}
	return taken, err
}

func (l *changeLog) ResetRule(ctx context.Context, name string) error {
	err := l.Engine.ResetRule(ctx, name)
	l.add(ctx, err, changed{what: changekind.Reset, of: queue.OfRule, name: name})
	return err
}

// headerBy is a note about who makes a change. It is not verified, so answers call it claimed_by.
const headerBy = "Penstock-By"

// serveChange serves a change with its actor in the context, and logs what was done.
func (h *handler) serveChange(rt *route, w http.ResponseWriter, r *http.Request) {
	actor := actorOf(rt, w, r)
	err := audit.ValidateNote(actor.Note)
	var field *invalid.Error
	if errors.As(err, &field) {
		(&httpio.Problem{
			Reason: httpio.ReasonInvalidRequest, Field: headerBy, Detail: field.Value + " " + field.Reason,
		}).Write(w)
		return
	}
	ctx, end := h.logged(audit.WithActor(r.Context(), actor))
	defer end()
	n := &httpio.Recorder{ResponseWriter: w}
	rt.serve(h, n, r.WithContext(ctx))
	if n.Refused != nil {
		h.noteRefusal(rt, w, r, n.Refused)
	}
}

// actorOf returns the actor of a request, for the records of its changes.
func actorOf(rt *route, w http.ResponseWriter, r *http.Request) (a audit.Actor) {
	if id := caller(r.Context()); id != nil {
		a = id.Actor
	}
	a.Address, a.Request, a.Operation = httpio.Address(r), w.Header()[httpio.HeaderRequest][0], rt.operation
	a.Note = strings.Join(r.Header.Values(headerBy), ", ")
	return a
}
