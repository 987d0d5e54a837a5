package machine_test

import (
	"context"
	"maps"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
	"github.com/penstock/penstock/queue/move"
	"github.com/penstock/penstock/queue/ruleset"
)

func (e *engine) Changes(ctx context.Context, r queue.ChangesRequest) (page queue.ChangesPage, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		c, err := e.m.Changes(now, r)
		if err == nil {
			e.read(func(tx machine.Transaction) { page, err = c.Read(tx, keep) })
		}
		return err
	})
	return page, err
}

func (e *engine) History(ctx context.Context, name string) (h queue.History, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) {
		e.read(func(tx machine.Transaction) { h, err = e.m.History(now, tx, name) })
		return err
	})
	return h, err
}

func (e *engine) Rollback(ctx context.Context, name string, revision, expect int64) (queue.PutResult, error) {
	h, err := e.History(ctx, name)
	if err != nil {
		return queue.PutResult{}, err
	}
	if expect != queue.AnyRevision && expect != h.Revision {
		return queue.PutResult{Revision: h.Revision}, queue.ErrRevision
	}
	spec, err := h.Earlier(revision)
	if err != nil {
		return queue.PutResult{}, err
	}
	return e.put(ctx, spec, h.Revision, true)
}

func (e *engine) Document(ctx context.Context, kind, name string) (d queue.Document, err error) {
	err = e.do(ctx, func(leaky.Instant) (err error) {
		e.read(func(tx machine.Transaction) { d, err = machine.ReadDocument(tx, kind, name) })
		return err
	})
	return d, err
}

func (e *engine) DocumentsSince(ctx context.Context, after int64, limit int) (p queue.DocumentsPage, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) {
		e.read(func(tx machine.Transaction) { p, err = e.m.DocumentsSince(now, tx, after, limit) })
		return err
	})
	return p, err
}

func (e *engine) PutDocument(ctx context.Context, d queue.Document, expect int64) (revision int64, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by queue.Actor) (err error) {
		e.read(func(tx machine.Transaction) { revision, _, err = e.m.PutDocument(now, tx, by, d, expect) })
		return err
	})
	return revision, err
}

func (e *engine) Record(ctx context.Context, entry queue.AuditEntry) error {
	entry, err := entry.Recorded()
	if err != nil {
		return err
	}
	return e.do(ctx, func(leaky.Instant) error { e.m.Record(entry); return nil })
}

func (e *engine) Audit(ctx context.Context, r queue.AuditRequest) (p queue.AuditPage, err error) {
	if err := r.Validate(1); err != nil {
		return p, err
	}
	err = e.do(ctx, func(leaky.Instant) (err error) {
		e.read(func(tx machine.Transaction) { p, err = machine.ReadAudit(tx, r) })
		return err
	})
	return p, err
}

func (e *engine) Job(ctx context.Context, name, id string) (i queue.JobInfo, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		f, err := e.m.FindJob(now, name, id)
		if err == nil {
			e.read(func(tx machine.Transaction) { i, err = f.Read(tx) })
		}
		return err
	})
	return i, err
}

func (e *engine) Cancel(ctx context.Context, name, id string) (s queue.State, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by queue.Actor) (err error) {
		s, _, err = e.m.Cancel(now, by, name, id)
		return err
	})
	return s, err
}

func (e *engine) ListJobs(ctx context.Context, r queue.ListRequest) (list queue.Listing, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		l, err := e.m.ListJobs(now, r)
		if err == nil {
			e.read(func(tx machine.Transaction) { list = l.Read(tx) })
		}
		return err
	})
	return list, err
}

func (e *engine) Purge(ctx context.Context, r queue.PurgeRequest) (p queue.Purged, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by queue.Actor) (err error) {
		p, _, err = e.m.Purge(now, by, r)
		return err
	})
	return p, err
}

func (e *engine) Replay(ctx context.Context, name string, ids []string) (out []queue.ReplayOutcome, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by queue.Actor) error {
		r, err := e.m.FindDead(now, name, ids)
		if err == nil {
			e.read(r.Read)
			out, _, err = e.m.Replay(now, by, r)
		}
		return err
	})
	return out, err
}

func (e *engine) Forget(ctx context.Context, name string, ids []string) (out []bool, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by queue.Actor) (err error) {
		out, _, err = e.m.Forget(now, by, name, ids)
		return err
	})
	return out, err
}

func (e *engine) Decide(
	ctx context.Context, name string, ids []string, v queue.Verdict, reason string,
) (out []queue.State, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by queue.Actor) (err error) {
		out, _, err = e.m.Decide(now, by, name, ids, v, reason)
		return err
	})
	return out, err
}

func (e *engine) DeadQueues(ctx context.Context, after string, limit int) (list []queue.DeadQueue, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { list = e.m.DeadQueues(now, after, limit); return nil })
	return list, err
}

func (e *engine) Withdraw(ctx context.Context, w []queue.Ticketed) (out []time.Duration, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { out, _ = e.m.Withdraw(now, w); return nil })
	return out, err
}

func (e *engine) Announce(ctx context.Context, name string) error {
	return e.do(ctx, func(now leaky.Instant) error { _, err := e.m.Announce(now, name); return err })
}

func (e *engine) Readmit(ctx context.Context, r queue.ReadmitRequest) (out queue.Readmitted, err error) {
	back, err := machine.NewReadmission(r)
	if err != nil {
		return out, err
	}
	err = e.do(ctx, func(now leaky.Instant) (err error) { out, _, err = e.m.Readmit(now, back); return err })
	return out, err
}

func (e *engine) Backlogged(ctx context.Context, limit int) (names []string, err error) {
	err = e.do(ctx, func(leaky.Instant) error { names = e.m.Backlogged(limit); return nil })
	return names, err
}

func (e *engine) PutRule(ctx context.Context, r queue.Rule, expect int64) (p queue.PutResult, err error) {
	t, err := machine.NewRuleText(r)
	if err != nil {
		return p, err
	}
	err = e.acting(ctx, func(now leaky.Instant, by queue.Actor) (err error) {
		p, _, err = e.m.PutRule(now, by, t, expect)
		return err
	})
	return p, err
}

func (e *engine) Rule(ctx context.Context, name string) (i queue.RuleInfo, err error) {
	err = e.do(ctx, func(leaky.Instant) (err error) { i, err = e.m.Rule(name); return err })
	return i, err
}

func (e *engine) ListRules(ctx context.Context, after string, limit int) (list []queue.RuleInfo, err error) {
	err = e.do(ctx, func(leaky.Instant) error { list = e.m.ListRules(after, limit); return nil })
	for i := range list {
		list[i].Overrides = maps.Clone(list[i].Overrides)
	}
	return list, err
}

func (e *engine) DeleteRule(ctx context.Context, name string, expect int64) error {
	return e.acting(ctx, func(now leaky.Instant, by queue.Actor) error {
		_, err := e.m.DeleteRule(now, by, name, expect)
		return err
	})
}

func (e *engine) ResetRule(ctx context.Context, name string) error {
	return e.acting(ctx, func(now leaky.Instant, by queue.Actor) error {
		_, err := e.m.ResetRule(now, by, name)
		return err
	})
}

func (e *engine) Attend(ctx context.Context, process string) (n int, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { n, err = e.m.Attend(now, process); return err })
	return n, err
}

func (e *engine) Take(ctx context.Context, name string, takes []queue.Take) (out []queue.Taken, err error) {
	if err := ruleset.CheckTakes(len(takes)); err != nil {
		return nil, err
	}
	keys := make([]queue.LaneDigest, len(takes))
	for i := range takes {
		keys[i] = queue.DigestLane(takes[i].Key)
	}
	entry, err := ruleset.Audited(ctx, name, takes)
	if err != nil {
		return nil, err
	}
	err = e.do(ctx, func(now leaky.Instant) (err error) {
		out, _, err = e.m.Take(now, name, takes, keys, entry)
		e.m.SaveTallies()
		return err
	})
	return out, err
}

func (e *engine) Totals(ctx context.Context) (t queue.Totals, err error) {
	err = e.do(ctx, func(leaky.Instant) error { t = e.m.Totals(); return nil })
	return t, err
}

func (e *engine) Space(ctx context.Context) (queue.Space, error) {
	return queue.Space{Used: 1 << 20, Stop: 1<<30 - 4<<20, Limit: 1 << 30}, e.Check(ctx)
}

func (e *engine) Drainers(ctx context.Context) (d queue.Drainers, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { d = e.m.Drainers(now); return nil })
	return d, err
}

func (e *engine) Check(ctx context.Context) error {
	return e.do(ctx, func(leaky.Instant) error { return nil })
}

func (e *engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		e.wakes.closeAll()
		e.rooms.closeAll()
	}
	return nil
}

func (e *engine) ExportQueue(ctx context.Context, name string) (q move.Queue, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { q, err = e.m.ExportQueue(now, name); return err })
	return q, err
}

func (e *engine) ExportJobs(ctx context.Context, r move.ExportRequest) (out move.Exported, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		x, err := e.m.ExportJobs(now, r)
		if err == nil {
			e.read(func(tx machine.Transaction) { out = x.Read(tx) })
		}
		return err
	})
	return out, err
}

func (e *engine) OpenImport(ctx context.Context, q move.Queue, mark string) (closed bool, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by queue.Actor) (err error) {
		closed, _, err = e.m.OpenImport(now, by, &q, mark)
		return err
	})
	return closed, err
}

func (e *engine) ImportJobs(ctx context.Context, name, mark string, jobs []move.Job) (out []move.Outcome, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) {
		out, _, err = e.m.ImportJobs(now, name, mark, jobs)
		return err
	})
	return out, err
}

func (e *engine) CloseImport(ctx context.Context, q move.Queue, mark string) error {
	return e.acting(ctx, func(now leaky.Instant, by queue.Actor) error {
		_, err := e.m.CloseImport(now, by, &q, mark)
		return err
	})
}
