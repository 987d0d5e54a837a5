package boltq

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// loader reads a file into an engine.
type loader struct {
	*Engine
	tx       *bbolt.Tx
	now      leaky.Instant
	byNumber map[uint64]*line
	dead     map[uint64]bool  // records that dead jobs keep
	latest   map[*line]uint64 // deferral of a queue that was read
	books    map[uint64]*rule
	orphans  rubbish // what deleted queues left
}

// load reads everything but payloads into memory. Jobs that were leased wait
// again at their turn: their holders are gone. Those whose lease is on file are still leased, until now.
func (e *Engine) load(ctx context.Context) error {
	return e.db.View(func(tx *bbolt.Tx) error {
		l := &loader{Engine: e, tx: tx, byNumber: map[uint64]*line{}, books: map[uint64]*rule{}, dead: map[uint64]bool{}, latest: map[*line]uint64{}}
		for _, step := range []func(context.Context) error{l.store, l.rules, l.takings, l.specs, l.imports, l.adapted, l.lines, l.failures, l.buckets, l.retains, l.ended, l.deferred, l.jobs, l.finish} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// each reads a table in order of key.
func (l *loader) each(ctx context.Context, table []byte, read func(k uint64, v []byte) error) error {
	n := 0
	return l.tx.Bucket(table).ForEach(func(k, v []byte) error {
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

func (l *loader) store(context.Context) (err error) {
	if l.Engine.store, err = (&tables{tx: l.tx}).getStore(); err != nil {
		return err
	}
	l.clock.last = l.Engine.store.now
	l.now = l.Engine.now()
	return nil
}

func (l *loader) specs(ctx context.Context) error {
	return l.each(ctx, specsTable, func(number uint64, v []byte) error {
		s, err := decodeSpec(v)
		if err != nil {
			return err
		}
		q := newLine(number, s.spec)
		if q.limits, err = follow(nil, s.spec.Limits, l.now); err != nil {
			return err
		}
		q.paces.adapted = adaptedBy(&s.spec, nil, l.now)
		l.attend(&q.paces)
		q.revision, q.pause, q.live = s.revision, s.pause, true
		l.Engine.lines[s.spec.Name] = q
		l.names = append(l.names, s.spec.Name)
		l.byNumber[number] = q
		l.bear(s.spec.Name, 1)
		l.name(&s.spec, 1)
		return nil
	})
}

func (l *loader) imports(ctx context.Context) error {
	if l.tx.Bucket(importsTable) == nil {
		return nil
	}
	return l.each(ctx, importsTable, func(number uint64, v []byte) error {
		if q := l.byNumber[number]; q != nil && len(v) > 0 {
			q.filling = filling{mark: string(v[1:]), open: v[0] == 1}
		}
		return nil
	})
}

func (l *loader) adapted(ctx context.Context) error {
	return l.each(ctx, adaptedTable, func(number uint64, v []byte) error {
		q := l.byNumber[number]
		if q == nil || q.paces.adapted == nil {
			return nil
		}
		err := q.paces.adapted.decode(v)
		q.pacer = q.paces.adapted.pace(q.pacer)
		return err
	})
}

func (l *loader) lines(ctx context.Context) error {
	return l.each(ctx, linesTable, func(number uint64, v []byte) error {
		r, err := decodeLine(v)
		if err != nil {
			return err
		}
		if q := l.byNumber[number]; q != nil {
			q.kept, q.maxCost, q.dearer, q.turn = r.counters, max(1, r.maxCost), r.dearer, r.turn
			q.aside.tickets, q.aside.way, q.heard = r.tickets, r.way, r.heard
			q.since, q.dearest = l.now, q.maxCost
			q.ceiling, q.pledged = r.ceiling, r.ceiling
			q.restore(r.ceiling, l.now, q.dearestOfAll())
		}
		return nil
	})
}

func (l *loader) failures(ctx context.Context) error {
	return l.each(ctx, failuresTable, func(number uint64, v []byte) error {
		q := l.byNumber[number]
		if q == nil {
			return nil
		}
		if err := json.Unmarshal(v, &q.failures); err != nil {
			return fmt.Errorf("%w: %w", queue.ErrCorrupt, err)
		}
		for i, f := range q.failures {
			q.failures[i].At = time.UnixMicro(f.At.UnixMicro()) // as Instant.Time gives it
		}
		return nil
	})
}

func (l *loader) buckets(context.Context) error {
	return l.tx.Bucket(bucketsTable).ForEach(func(k, v []byte) (err error) {
		l.Engine.left[string(k)], err = decodePaces(v, l.now)
		return err
	})
}

func (l *loader) retains(context.Context) error {
	return l.tx.Bucket(retainsTable).ForEach(func(k, v []byte) error {
		r := reader{b: v}
		l.lettersOf(string(k)).kept = &queue.Retention{For: queue.Duration(r.num()), Max: int64(r.num())}
		return r.err("retention")
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
			l.dead[d.seq] = true
		}
		q := l.byNumber[of]
		if q != nil {
			q.ended.add(d)
		}
		switch {
		case d.state == queue.Dead && (l.Engine.lines[name] != nil || l.letters[name] != nil):
			l.lay(name, d)
		case q == nil:
			l.orphans.ended = append(l.orphans.ended, d)
		}
		return nil
	})
}

func (l *loader) deferred(ctx context.Context) error {
	return l.each(ctx, deferredTable, func(seq uint64, v []byte) error {
		of, number, id, d, err := decodeDeferral(v)
		if err != nil {
			return err
		}
		q := l.byNumber[of]
		if q == nil {
			l.orphans.seqs = append(l.orphans.seqs, seq)
			return nil
		}
		a := &q.aside
		if number <= l.latest[q] || number > a.tickets {
			return fmt.Errorf("%w: number %d of %d, behind %d", queue.ErrCorrupt, number, a.tickets, l.latest[q])
		}
		l.latest[q] = number
		if old := a.records.find(id); old != 0 { // it had lapsed when this one was made
			l.lose(q, old)
		}
		d.seq = seq
		a.records.add(number, id, d)
		if d.state == deferred && number > a.way.givenUp {
			l.defers(q, number, 1, int64(d.cost))
		}
		return nil
	})
}

func (l *loader) jobs(ctx context.Context) error {
	flights := l.tx.Bucket(flightsTable)
	return l.each(ctx, jobsTable, func(seq uint64, v []byte) error {
		h, record, err := decodeJob(v)
		if err != nil {
			return err
		}
		q := l.byNumber[h.line]
		switch {
		case l.dead[seq]:
			return nil
		case q == nil:
			l.orphans.jobs = append(l.orphans.jobs, seq)
			return nil
		case len(record) < queue.RecordCost+2:
			return fmt.Errorf("%w: a record of %d bytes", queue.ErrCorrupt, len(record))
		}
		head, lane := q.head(record)
		j := &job{
			id: h.id, lane: lane, seq: seq, turn: turnOf(h.base, head.Priority), appended: h.appended,
			print: [8]byte(record[queue.RecordFingerprint:]), size: uint32(len(record)), cost: uint16(head.Cost),
		}
		q.board(j)
		q.plain = q.plain && !lane.keyed() && head.Priority == 0 && head.NotBefore.IsZero()
		if h.back {
			j.marks = cameBack
			q.aside.back++
			q.aside.backBytes += j.bytes()
		}
		q.expire(j, instant(head.ExpiresAt))
		q.jobs[j.id] = j
		q.turn = max(q.turn, j.base()+int64(j.cost))
		if f := flights.Get(key(seq)); f != nil {
			return l.fly(j, f)
		}
		if at := instant(head.NotBefore); at > l.now {
			j.inFlight().due = at
			l.schedule(j)
			return nil
		}
		l.wait(j, l.now)
		return nil
	})
}

// head reads what memory keeps of a record, and finds the job's lane. What cannot be read
// is noticed when the job departs.
func (l *line) head(record []byte) (queue.Head, *lane) {
	h, err := queue.UnpackHead(record)
	if err != nil {
		h = queue.Head{Cost: int64(binary.BigEndian.Uint16(record[queue.RecordCost:]))}
	}
	if ln := l.lanes[h.Lane]; ln != nil {
		return h, ln
	}
	var j queue.Job
	if h.Lane == (queue.LaneDigest{}) || queue.UnpackRecord(record, &j) != nil {
		return h, &l.bare
	}
	return h, l.lane(j.Lane, h.Lane)
}

// fly restores a job that was granted before and came back.
func (l *loader) fly(j *job, v []byte) error {
	state, f, err := decodeFlight(v)
	if err != nil {
		return err
	}
	f.job = j
	j.flight = &f
	switch state {
	case queue.Leased: // its holder died with the process; Open takes it back
		f.lent, f.deadline = true, l.now
		l.fences++
		f.fence = fence{l.epoch, l.fences}
		l.move(j, queue.Leased)
		l.leases.push(&f)
		return nil
	case queue.Held:
		l.move(j, queue.Held)
		j.lane.line.held.push(&f)
		return nil
	}
	if state == queue.Scheduled {
		if j.lane.line.spec.Ordered { // as when it failed
			j.lane.flying++
			f.counts = true
		}
		l.schedule(j)
		return nil
	}
	if f.verdict == queue.Throttle && j.lane.keyed() { // its lane's stop, of which there is no other record
		j.lane.putOff(f.due, l.now)
	}
	l.wait(j, l.now)
	return nil
}

func (l *loader) finish(context.Context) error {
	slices.Sort(l.names)
	if !l.orphans.empty() {
		l.garbage = append(l.garbage, &l.orphans)
	}
	for _, q := range l.byNumber {
		if queue.Parent(q.spec.Name) != "" {
			l.adopt(q, l.now)
		}
	}
	for _, q := range l.byNumber {
		l.trim(q, l.now, math.MaxInt)
		l.expunge(q, l.now, math.MaxInt)
		l.enlist(q)
		l.arm(q, l.now)
	}
	for _, ls := range l.letters {
		l.trimDead(ls, l.now, math.MaxInt)
	}
	return nil
}
