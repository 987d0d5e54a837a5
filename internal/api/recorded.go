package api

import (
	"context"
	"log/slog"
	"sync"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// recorded logs a line of what each request has changed. The engine records the same in its store; the line is for who
// watches this process. What a request did in many steps is one line, also when the last of them failed.
type recorded struct {
	queue.Engine
	log *slog.Logger
}

// deed is what a request did.
type deed struct {
	what          changekind.Kind
	of            queue.Subject
	name          string
	revision      int64
	jobs          int64
	detail, cause string
}

type deedsKey struct{}

// deeds are those of a request.
type deeds struct {
	mu   sync.Mutex
	done []deed
}

// logged is a context whose deeds are logged when the request is done, which calls end.
func (h *handler) logged(ctx context.Context) (_ context.Context, end func()) {
	d := &deeds{}
	return context.WithValue(ctx, deedsKey{}, d), func() {
		for _, done := range d.done {
			done.tell(ctx, h.o.Logger)
		}
	}
}

// tell logs a deed. claimed_by is what the caller says of himself; actor is who he was proven to be.
func (d *deed) tell(ctx context.Context, log *slog.Logger) {
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

// did notes a deed of a request, or adds to the one that it goes on with.
func (r *recorded) did(ctx context.Context, err error, d deed) {
	if err != nil {
		return
	}
	all, ok := ctx.Value(deedsKey{}).(*deeds)
	if !ok {
		d.tell(ctx, r.log)
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

func (r *recorded) put(
	ctx context.Context, of queue.Subject, name string, done queue.PutResult, what changekind.Kind, err error,
) (queue.PutResult, error) {
	if done.Created && what == changekind.Changed {
		what = changekind.Created
	}
	if done.Changed {
		r.did(ctx, err, deed{what: what, of: of, name: name, revision: done.Revision})
	}
	return done, err
}

func (r *recorded) Put(ctx context.Context, s queue.Spec, expect int64) (queue.PutResult, error) {
	done, err := r.Engine.Put(ctx, s, expect)
	return r.put(ctx, queue.OfQueue, s.Name, done, changekind.Changed, err)
}

func (r *recorded) Rollback(ctx context.Context, name string, revision, expect int64) (queue.PutResult, error) {
	done, err := r.Engine.Rollback(ctx, name, revision, expect)
	return r.put(ctx, queue.OfQueue, name, done, changekind.RolledBack, err)
}

func (r *recorded) Delete(ctx context.Context, name string, expect int64, force bool) error {
	err := r.Engine.Delete(ctx, name, expect, force)
	r.did(ctx, err, deed{what: changekind.Deleted, of: queue.OfQueue, name: name})
	return err
}

func (r *recorded) Pause(ctx context.Context, name string, p queue.Pause) error {
	err := r.Engine.Pause(ctx, name, p)
	r.did(ctx, err, deed{what: changekind.Paused, of: queue.OfQueue, name: name, cause: p.Reason})
	return err
}

func (r *recorded) Resume(ctx context.Context, name string) error {
	err := r.Engine.Resume(ctx, name)
	r.did(ctx, err, deed{what: changekind.Resumed, of: queue.OfQueue, name: name})
	return err
}

// jobs notes what was done to jobs, if it was to any.
func (r *recorded) jobs(ctx context.Context, err error, what changekind.Kind, name, detail, reason string, n int) {
	if n > 0 {
		r.did(ctx, err, deed{what: what, of: queue.OfQueue, name: name, jobs: int64(n), detail: detail, cause: reason})
	}
}

func (r *recorded) Purge(ctx context.Context, p queue.PurgeRequest) (queue.Purged, error) {
	done, err := r.Engine.Purge(ctx, p)
	r.jobs(ctx, err, changekind.Purged, p.Queue, p.Detail(), "", int(done.Jobs))
	return done, err
}

func (r *recorded) Cancel(ctx context.Context, name, id string) (queue.State, error) {
	state, err := r.Engine.Cancel(ctx, name, id)
	if state == queue.Cancelled {
		r.jobs(ctx, err, changekind.Cancelled, name, id, "", 1)
	}
	return state, err
}

func (r *recorded) Replay(ctx context.Context, name string, ids []string) ([]queue.ReplayOutcome, error) {
	outcomes, err := r.Engine.Replay(ctx, name, ids)
	r.jobs(ctx, err, changekind.Replayed, name, "", "", count(outcomes, queue.Replayed))
	return outcomes, err
}

func (r *recorded) Forget(ctx context.Context, name string, ids []string) ([]bool, error) {
	dropped, err := r.Engine.Forget(ctx, name, ids)
	r.jobs(ctx, err, changekind.Forgotten, name, "", "", count(dropped, true))
	return dropped, err
}

func (r *recorded) Decide(
	ctx context.Context, name string, ids []string, v queue.Verdict, reason string,
) ([]queue.State, error) {
	states, err := r.Engine.Decide(ctx, name, ids, v, reason)
	to := v.Decides()
	r.jobs(ctx, err, changekind.Decided, name, to.String(), reason, count(states, to))
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

func (r *recorded) PutRule(ctx context.Context, rule rules.Rule, expect int64) (queue.PutResult, error) {
	done, err := r.Engine.PutRule(ctx, rule, expect)
	return r.put(ctx, queue.OfRule, rule.Name, done, changekind.Changed, err)
}

func (r *recorded) DeleteRule(ctx context.Context, name string, expect int64) error {
	err := r.Engine.DeleteRule(ctx, name, expect)
	r.did(ctx, err, deed{what: changekind.Deleted, of: queue.OfRule, name: name})
	return err
}

func (r *recorded) Take(ctx context.Context, name string, takes []rules.Take) ([]rules.Taken, error) {
	taken, err := r.Engine.Take(ctx, name, takes)
	entry, bad := ruleset.Audited(ctx, name, takes)
	if entry != nil && err == nil && bad == nil {
		n := 0
		for i := range taken {
			if taken[i].Err == nil && taken[i].Away == "" {
				n++
			}
		}
		if n > 0 {
			r.did(ctx, nil, deed{what: entry.What, of: queue.OfRule, name: name, detail: ruleset.OfKeys(n)})
		}
	}
	return taken, err
}

func (r *recorded) ResetRule(ctx context.Context, name string) error {
	err := r.Engine.ResetRule(ctx, name)
	r.did(ctx, err, deed{what: changekind.Reset, of: queue.OfRule, name: name})
	return err
}
