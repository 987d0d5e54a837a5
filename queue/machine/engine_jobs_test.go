package machine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/internal/series"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

func (e *Engine) Changes(ctx context.Context, r queue.ChangesRequest) (page queue.ChangesPage, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		c, err := e.Machine.Changes(now, r)
		if err == nil {
			e.read(func(tx Transaction) { page, err = c.Read(tx, queue.KeepChanges) })
		}
		return err
	})
	return page, err
}

func (e *Engine) History(ctx context.Context, name string) (h queue.History, err error) {
	_, h, err = e.history(ctx, name)
	return h, err
}

func (e *Engine) history(ctx context.Context, name string) (past Past, h queue.History, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) {
		past, _ = e.Machine.History(now, name)
		e.read(func(tx Transaction) { h, err = past.Read(tx) })
		return err
	})
	return past, h, err
}

func (e *Engine) Rollback(
	ctx context.Context, name string, revision, expect int64,
) (p queue.PutResult, err error) {
	past, h, err := e.history(ctx, name)
	if err != nil {
		return p, err
	}
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) (err error) {
		p, _, err = e.Machine.Rollback(now, by, past, h, revision, expect)
		return err
	})
	return p, err
}

func (e *Engine) Batches(ctx context.Context, r queue.BatchesRequest) (list []queue.Batch, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { list, _, err = e.Machine.Batches(now, r); return err })
	return list, err
}

func (e *Engine) Document(ctx context.Context, kind, name string) (d document.Document, err error) {
	err = e.do(ctx, func(leaky.Instant) (err error) {
		e.read(func(tx Transaction) { d, err = ReadDocument(tx, kind, name) })
		return err
	})
	return d, err
}

func (e *Engine) DocumentsSince(ctx context.Context, after int64, limit int) (p document.Page, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) {
		e.read(func(tx Transaction) { p, err = ReadDocuments(e.wall(now), tx, 1, after, limit) })
		return err
	})
	return p, err
}

func (e *Engine) PutDocument(ctx context.Context, d document.Document, expect int64) (revision int64, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) (err error) {
		var known KnownDocument
		if e.read(func(tx Transaction) { known, err = ReadKnownDocument(tx, d) }); err == nil {
			revision, _, err = e.Machine.PutDocument(now, by, known, d, expect)
		}
		return err
	})
	return revision, err
}

func (e *Engine) PutSample(ctx context.Context, s series.Sample, keep int64) (added bool, err error) {
	err = e.do(ctx, func(leaky.Instant) (err error) {
		added, _, err = e.Machine.PutSample(s, keep)
		return err
	})
	return added, err
}

func (e *Engine) SamplesSince(ctx context.Context, of uint8, after int64) (some []series.Sample, err error) {
	err = e.do(ctx, func(leaky.Instant) (err error) {
		e.read(func(tx Transaction) { some, err = ReadSamples(tx, of, after) })
		return err
	})
	return some, err
}

func (e *Engine) Record(ctx context.Context, entry audit.Entry) error {
	entry, err := entry.Recorded()
	if err != nil {
		return err
	}
	return e.do(ctx, func(leaky.Instant) error { _, err := e.Machine.Record(entry); return err })
}

func (e *Engine) Audit(ctx context.Context, r audit.Request) (p audit.Page, err error) {
	if err := r.Validate(1); err != nil {
		return p, err
	}
	err = e.do(ctx, func(leaky.Instant) (err error) {
		e.read(func(tx Transaction) { p, err = ReadAudit(tx, r) })
		return err
	})
	return p, err
}

func (e *Engine) Job(ctx context.Context, name, id string) (i queue.JobInfo, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		f, _, err := e.Machine.FindJob(now, name, id)
		if err == nil {
			e.read(func(tx Transaction) { i, err = f.Read(tx) })
		}
		return err
	})
	return i, err
}

func (e *Engine) Cancel(ctx context.Context, name, id string) (s queue.State, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) (err error) {
		s, _, err = e.Machine.Cancel(now, by, name, id)
		return err
	})
	return s, err
}

func (e *Engine) ListJobs(ctx context.Context, r queue.ListRequest) (list queue.Listing, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		l, err := e.Machine.ListJobs(now, r)
		if err == nil {
			e.read(func(tx Transaction) { list = l.Read(tx) })
		}
		return err
	})
	return list, err
}

func (e *Engine) FindJobs(ctx context.Context, r queue.FindRequest) (found queue.FoundJobs, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		f, err := e.Machine.FindJobs(now, r)
		if err == nil {
			e.read(func(tx Transaction) { found = f.Read(tx) })
		}
		return err
	})
	return found, err
}

func (e *Engine) Purge(ctx context.Context, r queue.PurgeRequest) (p queue.Purged, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) (err error) {
		p, _, err = e.Machine.Purge(now, by, r)
		return err
	})
	return p, err
}

func (e *Engine) Replay(ctx context.Context, name string, ids []string) (out []queue.ReplayOutcome, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) error {
		r, err := e.Machine.FindDead(now, name, ids)
		if err == nil {
			e.read(r.Read)
			out, _, err = e.Machine.Replay(now, by, r)
		}
		return err
	})
	return out, err
}

func (e *Engine) Forget(ctx context.Context, name string, ids []string) (out []bool, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) (err error) {
		out, _, err = e.Machine.Forget(now, by, name, ids)
		return err
	})
	return out, err
}

func (e *Engine) Decide(
	ctx context.Context, name string, ids []string, v queue.Verdict, reason string,
) (out []queue.State, err error) {
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) (err error) {
		out, _, err = e.Machine.Decide(now, by, name, ids, v, reason)
		return err
	})
	return out, err
}

func (e *Engine) DeadQueues(ctx context.Context, after string, limit int) (list []queue.DeadQueue, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { list = e.Machine.DeadQueues(now, after, limit); return nil })
	return list, err
}

func (e *Engine) Withdraw(ctx context.Context, w []queue.Ticketed) (out []time.Duration, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { out, _ = e.Machine.Withdraw(now, w); return nil })
	return out, err
}

func (e *Engine) Announce(ctx context.Context, name string) error {
	return e.do(ctx, func(now leaky.Instant) error { _, err := e.Machine.Announce(now, name); return err })
}

func (e *Engine) Readmit(ctx context.Context, r queue.ReadmitRequest) (out queue.Readmitted, err error) {
	back, err := NewReadmission(r)
	if err != nil {
		return out, err
	}
	err = e.do(ctx, func(now leaky.Instant) (err error) { out, _, err = e.Machine.Readmit(now, back); return err })
	return out, err
}

func (e *Engine) Backlogged(ctx context.Context, limit int) (names []string, err error) {
	err = e.do(ctx, func(leaky.Instant) error { names = e.Machine.Backlogged(limit); return nil })
	return names, err
}

func (e *Engine) PutRule(ctx context.Context, r rules.Rule, expect int64) (p queue.PutResult, err error) {
	t, err := NewRuleText(r)
	if err != nil {
		return p, err
	}
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) (err error) {
		p, _, err = e.Machine.PutRule(now, by, t, expect)
		return err
	})
	return p, err
}

func (e *Engine) Rule(ctx context.Context, name string) (i rules.Info, err error) {
	err = e.do(ctx, func(leaky.Instant) (err error) { i, err = e.Machine.Rule(name); return err })
	i.Overrides = maps.Clone(i.Overrides)
	return i, err
}

func (e *Engine) ListRules(ctx context.Context, after string, limit int) (list []rules.Info, err error) {
	err = e.do(ctx, func(leaky.Instant) error { list = e.Machine.ListRules(after, limit); return nil })
	for i := range list {
		list[i].Overrides = maps.Clone(list[i].Overrides)
	}
	return list, err
}

func (e *Engine) DeleteRule(ctx context.Context, name string, expect int64) error {
	return e.acting(ctx, func(now leaky.Instant, by audit.Actor) error {
		_, err := e.Machine.DeleteRule(now, by, name, expect)
		return err
	})
}

func (e *Engine) ResetRule(ctx context.Context, name string) error {
	return e.acting(ctx, func(now leaky.Instant, by audit.Actor) error {
		_, err := e.Machine.ResetRule(now, by, name)
		return err
	})
}

func (e *Engine) Attend(ctx context.Context, process string) (n int, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { n, err = e.Machine.Attend(now, process); return err })
	return n, err
}

func (e *Engine) Take(ctx context.Context, name string, takes []rules.Take) (out []rules.Taken, err error) {
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
	done := false // takes are not repeated if there was no room for the entry
	err = e.do(ctx, func(now leaky.Instant) (err error) {
		if done && entry != nil {
			return nil
		}
		done = true
		out, _, err = e.Machine.Take(now, name, takes, keys, entry)
		if !e.behind && e.Full == nil {
			e.Machine.SaveTallies()
		}
		return err
	})
	return out, err
}

func (e *Engine) Totals(ctx context.Context) (t queue.Totals, err error) {
	err = e.do(ctx, func(leaky.Instant) error { t = e.Machine.Totals(); return nil })
	return t, err
}

func (e *Engine) Space(ctx context.Context) (queue.Space, error) {
	return queue.Space{Used: 1 << 20, Stop: 1<<30 - 4<<20, Limit: 1 << 30}, e.Check(ctx)
}

func (e *Engine) Drainers(ctx context.Context) (d queue.Drainers, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		d = e.Machine.Drainers(now)
		d.Clock = e.clock.State()
		d.ToWall()
		return nil
	})
	return d, err
}

func (e *Engine) Check(ctx context.Context) error {
	return e.do(ctx, func(leaky.Instant) error { return nil })
}

func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		e.wakes.closeAll()
		e.rooms.closeAll()
	}
	return nil
}

func (e *Engine) ExportQueue(ctx context.Context, name string) (q move.Queue, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { q, err = e.Machine.ExportQueue(now, name); return err })
	return q, err
}

func (e *Engine) ExportJobs(ctx context.Context, r move.ExportRequest) (out move.Exported, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		x, err := e.Machine.ExportJobs(now, r)
		if err == nil {
			e.read(func(tx Transaction) { out = x.Read(tx) })
		}
		return err
	})
	return out, err
}

func (e *Engine) ImportQueues(ctx context.Context, queues []move.Queue, mark string) (done []bool, err error) {
	list := make([]NewQueue, len(queues))
	for i := range queues {
		list[i].Moved = &queues[i]
		if list[i].Spec, err = NewSpecText(queues[i].Spec); err != nil {
			return nil, err
		}
	}
	for step := range slices.Chunk(list, move.MaxStep) {
		err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) error {
			some, _, err := e.Machine.ImportQueues(now, by, step, mark)
			done = append(done, some...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return done, nil
}

func (e *Engine) OpenImport(ctx context.Context, q move.Queue, mark string) (closed bool, err error) {
	s, err := NewSpecText(q.Spec)
	if err != nil {
		return false, err
	}
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) (err error) {
		closed, _, err = e.Machine.OpenImport(now, by, &q, s, mark)
		return err
	})
	return closed, err
}

func (e *Engine) ImportJobs(ctx context.Context, name, mark string, jobs []move.Job) (out []move.Outcome, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) {
		out, _, err = e.Machine.ImportJobs(now, name, mark, jobs)
		return err
	})
	return out, err
}

func (e *Engine) CloseImport(ctx context.Context, q move.Queue, mark string) error {
	return e.acting(ctx, func(now leaky.Instant, by audit.Actor) error {
		_, err := e.Machine.CloseImport(now, by, &q, mark)
		return err
	})
}
