package machine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// loader reads a store into a machine.
type loader struct {
	*Machine
	*tables
	now            leaky.Instant
	byNumber       map[uint64]*queueState
	dead           map[uint64]deadRef     // by the keys of their records
	lastDeferral   map[*queueState]uint64 // the last number that was read
	rulesByTallies map[uint64]*rule
	orphans        garbage // of deleted queues
}

// deadRef is a dead job and the name of its queue.
type deadRef struct {
	name string
	job  *endedJob
}

// ClockOf returns the clock as of the last commit of a store. It goes on from there. A jump ahead of the wall clock
// that it ignored does not count as time that passed while nobody ran. After a jump back, it follows the wall clock
// again once that has caught up.
func ClockOf(tx Transaction) (Clock, error) {
	s, err := (&tables{tx}).getStore()
	return Clock{Last: s.now, offset: min(s.ahead, 0)}, err
}

// Initialise makes a new store of empty tables.
func Initialise(tx Transaction) error {
	s := effects{}
	s.putStore(storeRecord{})
	return (&tables{tx}).write(&s)
}

// LastCommit returns the number of the last commit of a store.
func LastCommit(tx Transaction) (uint64, error) {
	s, err := (&tables{tx}).getStore()
	return s.commit, err
}

// Load restores the stored state, except payloads, into an empty machine. Leased jobs wait at their turn, since their
// holders are gone. Only jobs with a lease on file stay leased, until TakeBackPersisted. Turns and the paces of lanes
// are not stored: turns start over, and a lane with a rate is delayed as if it had just granted the costliest job of
// its queue. Errors: queue.ErrCorrupt, ctx's.
func (m *Machine) Load(ctx context.Context, tx Transaction, now leaky.Instant) error {
	l := &loader{
		Machine: m, tables: &tables{tx}, now: now, byNumber: map[uint64]*queueState{},
		rulesByTallies: map[uint64]*rule{}, dead: map[uint64]deadRef{}, lastDeferral: map[*queueState]uint64{},
	}
	for _, step := range []func(context.Context) error{
		l.loadStore, l.loadRules, l.readTallies, l.specs, l.imports, l.loadAdapted, l.loadQueues, l.loadFailures,
		l.loadLeftPaces, l.retentions, l.loadSamples, l.loadBatches, l.ended, l.deferred, l.jobs, l.loadDebts, l.finish,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// each reads a table in order of key.
func (l *loader) each(ctx context.Context, table []byte, read func(k uint64, v []byte) error) error {
	n := 0
	return forEach(l.Table(table), func(k, v []byte) error {
		if n++; n%10_000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if len(k) != 8 {
			return fmt.Errorf("%w: table %s has a key of %d bytes", queue.ErrCorrupt, table, len(k))
		}
		number := binary.BigEndian.Uint64(k)
		if err := read(number, v); err != nil {
			return fmt.Errorf("table %s, %d: %w", table, number, err)
		}
		return nil
	})
}

func (l *loader) loadStore(context.Context) (err error) {
	if l.store, err = l.getStore(); err != nil {
		return err
	}
	l.durable, l.current = l.store.commit, newCommit(l.store.commit+1)
	l.documentsDurable = l.durable
	l.durableKeys = keys{l.store.seq, l.store.ended, l.store.deferred}
	return nil
}

func (l *loader) specs(ctx context.Context) error {
	return l.each(ctx, specsTable, func(number uint64, v []byte) error {
		s, err := decodeSpec(v)
		if err != nil {
			return err
		}
		q := l.newQueueState(number, s.spec)
		if q.limits, err = carryOverLimits(nil, s.spec.Limits, &l.Environment, l.now); err != nil {
			return err
		}
		q.hours = newOpenHours(s.spec.Hours, q.env)
		q.paces.adapted = adaptedRateOf(&s.spec, nil, l.now)
		l.noteCalendars(q)
		q.revision, q.pause, q.live = s.revision, s.pause, true
		l.Machine.queues[s.spec.Name] = q
		l.queueNames.push(s.spec.Name)
		l.byNumber[number] = q
		l.countChild(s.spec.Name, 1)
		l.countRuleUses(s.spec.Name, s.spec.Rules, 1)
		return nil
	})
}

// eachQueue reads a table whose keys are the numbers of queues, ignoring unknown queues.
func (l *loader) eachQueue(ctx context.Context, table []byte, read func(q *queueState, v []byte) error) error {
	return l.each(ctx, table, func(number uint64, v []byte) error {
		if q := l.byNumber[number]; q != nil {
			return read(q, v)
		}
		return nil
	})
}

func (l *loader) imports(ctx context.Context) error {
	return l.eachQueue(ctx, importsTable, func(q *queueState, v []byte) error {
		if len(v) > 0 {
			q.importing = &importState{mark: string(v[1:]), open: v[0] == 1}
		}
		return nil
	})
}

func (l *loader) loadAdapted(ctx context.Context) error {
	return l.eachQueue(ctx, adaptedTable, func(q *queueState, v []byte) error {
		if q.paces.adapted == nil {
			return nil
		}
		err := q.paces.adapted.decode(v)
		q.pacer = q.paces.adapted.pace(q.pacer)
		return err
	})
}

func (l *loader) loadQueues(ctx context.Context) error {
	return l.eachQueue(ctx, queuesTable, func(q *queueState, v []byte) error {
		r, err := decodeQueue(v)
		if err != nil {
			return err
		}
		q.counters, q.maxCost, q.turn = r.counters, int32(max(1, min(r.maxCost, leaky.MaxCost))), r.turn
		q.childMaxCost = int32(min(r.childMaxCost, leaky.MaxCost))
		q.receiver = r.receiver.possible(l.now)
		if r.tickets != 0 || r.progress != (overflowProgress{}) {
			o := q.ownOverflow()
			o.lastTicket, o.progress = r.tickets, r.progress
		}
		q.earlier = &earlier{l.now, int64(q.maxCost)}
		learned, err := queue.UnpackLearned(r.learned)
		if err != nil {
			return err
		}
		q.setLearned(learned)
		q.ceiling = ceilingState{durable: r.ceiling, next: r.ceiling}
		q.restore(r.ceiling, l.now, q.groupMaxCost())
		return nil
	})
}

func (l *loader) loadFailures(ctx context.Context) error {
	return l.eachQueue(ctx, failuresTable, func(q *queueState, v []byte) error {
		if err := json.Unmarshal(v, &q.failures); err != nil {
			return fmt.Errorf("%w: %w", queue.ErrCorrupt, err)
		}
		for i, f := range q.failures {
			q.failures[i].At = time.UnixMicro(f.At.UnixMicro()) // as Instant.Time returns it
		}
		return nil
	})
}

func (l *loader) loadLeftPaces(context.Context) error {
	return forEach(l.Table(leftPacesTable), func(k, v []byte) (err error) {
		l.Machine.leftPaces[string(k)], err = decodePaces(v, &l.Environment, l.now)
		return err
	})
}

func (l *loader) retentions(context.Context) error {
	return forEach(l.Table(retentionsTable), func(k, v []byte) error {
		r := &queue.Retention{}
		l.deadJobsOf(string(k)).retention = r
		_, err := decode(v, "retention", &r.For, &r.Max)
		return err
	})
}

func (l *loader) ended(ctx context.Context) error {
	return l.each(ctx, endedTable, func(number uint64, v []byte) error {
		of, d, name, _, err := decodeEnded(v)
		if err != nil {
			return err
		}
		d.key = number
		if d.seq != 0 {
			l.dead[d.seq] = deadRef{name, d}
		}
		q := l.byNumber[of]
		if q != nil {
			l.keepEnded(q, d)
		}
		switch {
		case d.state == queue.Dead && (l.Machine.queues[name] != nil || l.deadJobs[name] != nil):
			l.addDead(name, d)
		case q == nil:
			l.orphans.ended = append(l.orphans.ended, d)
		}
		return nil
	})
}

func (l *loader) deferred(ctx context.Context) error {
	return l.each(ctx, deferredTable, func(seq uint64, v []byte) error {
		of, number, id, d, label, err := decodeDeferral(v)
		if err != nil {
			return err
		}
		q := l.byNumber[of]
		if q == nil {
			l.orphans.deferralKeys = append(l.orphans.deferralKeys, seq)
			return nil
		}
		o := q.ownOverflow()
		if number <= l.lastDeferral[q] || number > o.lastTicket {
			return fmt.Errorf(
				"%w: deferral %d of %d after %d", queue.ErrCorrupt, number, o.lastTicket, l.lastDeferral[q],
			)
		}
		l.lastDeferral[q] = number
		if old := o.records.find(id); old != 0 { // it had lapsed when this one was created
			l.dropLapsed(q, old, l.now)
		}
		d.seq = seq
		o.records.add(number, id, d)
		if d.state == stillDeferred && number > o.progress.givenUpTo {
			l.countDeferred(q, number, d.count())
			if label != "" && q.batches != nil {
				q.deferWith(q.batches.byLabel[label], number)
			}
		}
		return nil
	})
}

func (l *loader) jobs(ctx context.Context) error {
	leases := l.Table(leasesTable)
	return l.each(ctx, jobsTable, func(seq uint64, v []byte) error {
		h, record, err := decodeJob(v)
		if err != nil {
			return err
		}
		q, dead := l.byNumber[h.queue], l.dead[seq]
		switch {
		case dead.job != nil:
			l.sizeDead(dead, len(record))
			return nil
		case q == nil:
			l.orphans.jobs = append(l.orphans.jobs, seq)
			return nil
		case len(record) < jobrecord.CostAt+2:
			return fmt.Errorf("%w: a job record of only %d bytes", queue.ErrCorrupt, len(record))
		}
		head, lane := q.readHead(record)
		j := &job{
			id: h.id, lane: lane, seq: seq, turn: turnOf(h.base, head.Priority), appended: h.appended,
			fingerprint: [8]byte(record[jobrecord.FingerprintAt:]), size: uint32(len(record)), cost: uint16(head.Cost),
		}
		j.setCosts(record)
		q.addToLane(j)
		q.plain = q.plain && !lane.keyed() && head.Priority == 0 && head.NotBefore.IsZero()
		if h.marks&readmitted != 0 {
			q.countReadmitted(j)
		}
		q.setExpiry(j, instantOf(head.ExpiresAt))
		q.addJob(j)
		if head.Batch != "" && q.batches != nil && q.batches.byLabel[head.Batch] != nil {
			q.batches.ofJob[seq] = q.batches.byLabel[head.Batch]
		}
		q.turn = max(q.turn, j.turnBase()+int64(j.cost))
		if f := leases.Get(key(seq)); f != nil {
			return l.restoreLease(j, f)
		}
		if at := instantOf(head.NotBefore); at > l.wall(l.now) {
			j.ensureLease().due = at
			l.putScheduled(j)
			return nil
		}
		l.putWaiting(j, l.now)
		return nil
	})
}

// sizeDead sets the size of a dead job's record.
func (l *loader) sizeDead(d deadRef, size int) {
	before := d.job.bytes()
	d.job.size = uint32(size)
	if dead := l.deadJobs[d.name]; dead != nil && dead.byID[d.job.id] == d.job {
		dead.bytes += d.job.bytes() - before
	}
}

// readHead reads what memory keeps of a record, and finds the job's lane. An unreadable record is noticed when the job
// departs.
func (q *queueState) readHead(record []byte) (jobrecord.Head, *lane) {
	h, err := jobrecord.UnpackHead(record)
	if err != nil {
		h = jobrecord.Head{Cost: int64(binary.BigEndian.Uint16(record[jobrecord.CostAt:]))}
	}
	if ln := q.lanes[h.Lane]; ln != nil {
		return h, ln
	}
	var j queue.Job
	if h.Lane == (queue.LaneDigest{}) || jobrecord.Unpack(record, &j) != nil {
		return h, q.ensureDefaultLane()
	}
	return h, q.lane(j.Lane, h.Lane)
}

func (l *loader) restoreLease(j *job, v []byte) error {
	state, ls, err := decodeLease(v)
	if err != nil {
		return err
	}
	ls.job = j
	j.lease = &ls
	switch state {
	case queue.Leased: // its holder died with the process; TakeBackPersisted takes it back
		ls.persisted, ls.deadline = true, l.now
		l.lastFence++
		ls.fence = fence{l.epoch, l.lastFence}
		l.setState(j, queue.Leased)
		l.leases.push(&ls)
		return nil
	case queue.Held:
		l.setState(j, queue.Held)
		pushTo(&j.lane.queue.held, byDue, &ls)
		return nil
	}
	if state == queue.Scheduled {
		if j.lane.queue.spec.Ordered { // a job that backs off blocks its lane
			j.lane.inFlight++
			ls.inFlight = true
		}
		l.putScheduled(j)
		return nil
	}
	if ls.verdict == queue.Throttle && j.lane.keyed() { // the stop of its lane, which is recorded only here
		j.lane.stopUntil(ls.due, l.now)
	}
	l.putWaiting(j, l.now)
	return nil
}

func (l *loader) finish(context.Context) error {
	if !l.orphans.empty() {
		l.garbage = append(l.garbage, &l.orphans)
	}
	for _, q := range l.byNumber {
		if names.Parent(q.name) != "" {
			l.joinGroup(q, l.now)
		}
	}
	for _, q := range l.byNumber {
		l.trim(q, l.now, math.MaxInt)
		l.forgetLapsed(q, l.now, math.MaxInt)
		l.trackBacklog(q)
		l.arm(q, l.now)
	}
	for _, dead := range l.deadJobs {
		l.trimDead(dead, l.now, math.MaxInt)
	}
	return nil
}
