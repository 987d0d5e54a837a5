package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

func (p *pair) put(s queue.Spec) {
	p.putBoth(s, rapid.IntRange(-1, len(p.revs[0])).Draw(p.T, "expect"))
}

// putBoth puts a spec. It expects any revision (-1), none (0), or the nth that was given out.
func (p *pair) putBoth(s queue.Spec, which int) {
	var got [2]int64
	p.both(fmt.Sprintf("put %s %s %s burst %d capacity %d bytes %d lease %v attempts %d deadline %v on unknown %q "+
		"retention %+v overflow %s %+v %s expecting %d", s.Name, s.Rate, s.Adapt, s.Burst, s.Capacity, s.MaxBytes,
		s.Lease, s.Retry.MaxAttempts, s.Retry.Deadline, s.OnUnknown, s.Retention, s.Overflow, s.Deferred, rulesOf(s),
		which), func(side int, e queue.Engine) string {
		expect := int64(which)
		if which > 0 {
			expect = p.revs[side][which-1]
		}
		res, err := e.Put(p.ctx, s, expect)
		got[side] = res.Revision
		return fmt.Sprintf("%v created %v changed %v", kind(err), res.Created, res.Changed)
	})
	p.revision(got)
}

// revision checks that two revisions correspond.
func (p *pair) revision(got [2]int64) {
	p.Helper()
	p.corresponds(&p.revs, got)
}

func (p *pair) corresponds(known *[2][]int64, got [2]int64) {
	p.Helper()
	i, j := slices.Index(known[0], got[0]), slices.Index(known[1], got[1])
	if i != j || (got[0] == 0) != (got[1] == 0) {
		p.Fatalf("revisions %d and %d do not correspond", got[0], got[1])
	}
	if i < 0 && got[0] != 0 {
		known[0], known[1] = append(known[0], got[0]), append(known[1], got[1])
	}
}

func (p *pair) pause() {
	q := p.queueName()
	pause := queue.Pause{Reason: rapid.SampledFrom([]string{"because", "why not"}).Draw(p.T, "reason")}
	if us := rapid.SampledFrom([]int64{-1, 0, 1, 100_000, 1_000_000, 60_000_000}).Draw(p.T, "pause"); us >= 0 {
		// Later than the limit however far the engines' clocks are ahead.
		pause.Until = p.clock.Now().Add(time.Duration(us) * time.Microsecond).Time()
	}
	ctx := audit.WithActor(p.ctx, audit.Actor{
		Name: rapid.SampledFrom([]string{"", "token:1"}).Draw(p.T, "name"),
		Note: rapid.SampledFrom([]string{"ann", "bob"}).Draw(p.T, "by"),
	})
	p.both(
		fmt.Sprintf("pause %s %+v", q, pause),
		func(_ int, e queue.Engine) string { return kind(e.Pause(ctx, q, pause)) },
	)
}

func (p *pair) resume() {
	q := p.queueName()
	p.both("resume "+q, func(_ int, e queue.Engine) string { return kind(e.Resume(p.ctx, q)) })
}

// delete deletes a queue, and usually makes it again.
func (p *pair) delete() {
	p.deleted = true
	q, force := p.queueName(), rapid.Bool().Draw(p.T, "force")
	p.deleteBoth(q, force)
	if rapid.IntRange(0, 3).Draw(p.T, "made again") < 3 {
		p.putBoth(p.spec(q), queue.AnyRevision)
	}
}

// sweep runs both sweepers to the end. How much they sweep may differ.
func (p *pair) sweep() {
	p.both("sweep", func(_ int, e queue.Engine) string {
		for range 1000 {
			if more, err := e.Sweep(p.ctx, partition(nil, e, "g")); !more || err != nil {
				return kind(err)
			}
		}
		return "the sweeper never ends"
	})
}

// rush makes several queues of the group backlogged at once, and lets them take turns.
func (p *pair) rush() {
	var list []queue.Job
	for range rapid.IntRange(4, 16).Draw(p.T, "rushing") {
		j := job(rapid.SampledFrom(pairQueues).Draw(p.T, "queue"), p.id())
		j.Cost = rapid.Int64Range(0, 3).Draw(p.T, "cost")
		p.inSomeLane(&j)
		j.Costs = p.costs("costs")
		j.Batch = rapid.SampledFrom(pairBatches).Draw(p.T, "batch")
		list = append(list, j)
	}
	calls := [][]queue.Job{list}
	if p.ruled { // see someJobs
		calls = slices.Collect(slices.Chunk(list, 1))
	}
	for _, list := range calls {
		p.appendBoth("rush", list, func(e queue.Engine) ([]queue.Appended, error) { return e.Append(p.ctx, list) })
	}
	for range rapid.IntRange(1, 6).Draw(p.T, "rounds") {
		p.reserve()
		p.clock.Advance(min(
			p.patience(), time.Duration(rapid.Int64Range(0, 400_000).Draw(p.T, "microseconds"))*time.Microsecond,
		))
	}
}

// regroup deletes the whole group and makes part of it again: the parent before its children, after them, or not at
// all.
func (p *pair) regroup() {
	p.deleted = true
	for _, q := range append([]string{"g.keep"}, "g.c", "g.b", "g.a", "g") {
		p.deleteBoth(q, true)
	}
	p.keep = false
	for _, q := range rapid.Permutation(pairQueues).Draw(p.T,
		"made again")[:rapid.IntRange(1, len(pairQueues)).Draw(p.T, "as many")] {
		p.putBoth(p.spec(q), queue.AnyRevision)
	}
}

func (p *pair) deleteBoth(q string, force bool) {
	p.both(fmt.Sprintf("delete %s, force %v", q, force), func(_ int, e queue.Engine) string {
		err := e.Delete(p.ctx, q, queue.AnyRevision, force)
		if err == nil {
			p.counts[q] = newAnswerCounts()
		}
		return kind(err)
	})
}

// changes compares the history of a queue or a rule, except for revisions.
func (p *pair) changes(of queue.Subject, name string) {
	p.both(fmt.Sprintf("changes of %s %s", of, name), func(_ int, e queue.Engine) string {
		page, err := e.Changes(p.ctx, queue.ChangesRequest{Subject: of, Name: name, Limit: queue.MaxChanges})
		text := fmt.Sprintf("%s, next %d, %d dropped", kind(err), page.Next, page.Dropped)
		for _, c := range page.Changes {
			text += fmt.Sprintf("\n  %d %s to %s %q %s %s -> %s %q %s; %d jobs %q %q", c.Number, micro(c.At),
				micro(c.Last), c.By+" "+c.Note, c.What, specText(c.Before), specText(c.After),
				c.Reason, micro(c.Until), c.Jobs, c.IDs, c.Detail)
			for _, r := range []*rules.Rule{c.RuleBefore, c.RuleAfter} {
				if r != nil {
					kept, err := rules.Encode(*r)
					text += fmt.Sprintf(" %s %v", kept, err)
				}
			}
		}
		return text
	})
}

func specText(s *queue.Spec) string {
	if s == nil {
		return "none"
	}
	text, err := queue.EncodeSpec(*s)
	return fmt.Sprintf("%s %v", text, err)
}

// rollback rolls a queue back to the spec before the last change, if there was one.
func (p *pair) rollback() {
	q := p.queueName()
	var got [2]queue.PutResult
	p.both("rollback "+q, func(side int, e queue.Engine) string {
		r, err := e.Rollback(audit.WithNote(p.ctx, "carl"), q, 0, queue.AnyRevision)
		if got[side] = r; err == nil && r.Created {
			p.counts[q] = newAnswerCounts()
		}
		return fmt.Sprintf("%s created %v changed %v", kind(err), r.Created, r.Changed)
	})
	p.revision([2]int64{got[0].Revision, got[1].Revision})
}

// exported exports a queue from one engine. The order of the jobs does not matter, since their turns and instants are
// exported.
func (p *pair) exported(e queue.Engine, name string) (m exportedQueue, err error) {
	mover := e.(move.Mover)
	if m.queue, err = mover.ExportQueue(p.ctx, name); err != nil {
		return m, err
	}
	for _, s := range []queue.State{
		queue.Dead, queue.Scheduled, queue.Waiting, queue.Leased, queue.Held, queue.Delivered,
	} {
		for r := (move.ExportRequest{Queue: name, State: s}); ; {
			page, err := mover.ExportJobs(p.ctx, r)
			if err != nil {
				return m, err
			}
			m.jobs = append(m.jobs, page.Jobs...)
			if r.After = page.Next; r.After == "" {
				break
			}
		}
	}
	return m, nil
}

// export exports a queue from both engines and compares the results.
func (p *pair) export() {
	name := p.queueName()
	p.both("export of "+name, func(_ int, e queue.Engine) string {
		m, err := p.exported(e, name)
		if err != nil {
			return kind(err)
		}
		lines := strings.Split(m.text(), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n  ")
	})
}
