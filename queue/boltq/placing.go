package boltq

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// placed is one job of an import on its way in.
type placed struct {
	queue.MovedJob
	queue, mark string
	head        queue.Head
	lane        string
	print       [8]byte
	outcome     queue.ImportOutcome
	err         error
}

// ImportJobs implements queue.Mover.
func (e *Engine) ImportJobs(ctx context.Context, name, mark string, jobs []queue.MovedJob) ([]queue.ImportOutcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := queue.ValidateImport(jobs); err != nil {
		return nil, err
	}
	items := make([]*placed, len(jobs))
	for i, j := range jobs {
		items[i] = &placed{MovedJob: j, queue: name, mark: mark}
		if err := items[i].unpack(); err != nil {
			return nil, err
		}
	}
	if err := rounds(ctx, e, items, e.placeJob); err != nil {
		return nil, err
	}
	outcomes := make([]queue.ImportOutcome, len(jobs))
	for i, it := range items {
		if it.err != nil {
			return nil, it.err
		}
		outcomes[i] = it.outcome
	}
	return outcomes, nil
}

// unpack reads what memory keeps of the record.
func (it *placed) unpack() (err error) {
	binary.BigEndian.PutUint64(it.print[:], it.Fingerprint)
	if it.State.Ended() && it.State != queue.Dead {
		return nil
	}
	if it.head, err = queue.UnpackHead(it.Record); err != nil {
		return err
	}
	it.print, it.Cost = [8]byte(it.Record[queue.RecordFingerprint:]), it.head.Cost
	it.lane, _, err = queue.UnpackLane(it.Record)
	return err
}

// placeJob decides about a job, unless that depends on changes under way.
func (e *Engine) placeJob(it *placed, c *call, now leaky.Instant) (busy *call) {
	l := e.lines[it.queue]
	switch {
	case l == nil:
		it.err = unknownQueue(it.queue)
		return nil
	case l.busy != nil:
		return l.busy
	case l.filling != filling{it.mark, true}:
		it.err = notOpen(it.queue)
		return nil
	}
	print, there, busy := l.printOf(it.ID, now)
	switch {
	case busy != nil:
		return busy
	case there && print == it.print:
		it.outcome = queue.There
	case there:
		it.outcome = queue.Clashes
	case e.full():
		it.err = fmt.Errorf("%w: %s", queue.ErrStoreFull, e.path)
	case !it.State.Ended():
		e.placeAlive(it, l, c)
	case now.Sub(instant(it.At)) >= l.spec.Retention.For.D():
		it.outcome = queue.Forgotten
	default:
		e.placeEnded(it, l, c)
	}
	return nil
}

// printOf returns the fingerprint of the job that a queue has of an id, unless that depends on a change under way.
func (l *line) printOf(id string, now leaky.Instant) (print [8]byte, there bool, busy *call) {
	if j := l.jobs[id]; j != nil {
		return j.print, true, j.busy
	}
	if c := l.moving(id); c != nil {
		return print, false, c
	}
	if d := l.ended.find(id, l.spec.Retention, now); d != nil {
		return d.print, true, nil
	}
	if _, d := l.deferral(id, now); d != nil {
		return d.print, true, nil
	}
	return print, false, nil
}

// placeAlive reserves the place of a job that holds one. Capacity is not judged: it was when the job came in.
func (e *Engine) placeAlive(it *placed, l *line, c *call) {
	e.store.seq++
	j := &job{
		id: strings.Clone(it.ID), lane: l.lane(it.lane, it.head.Lane), seq: e.store.seq, turn: it.Turn, appended: instant(it.AppendedAt),
		print: it.print, busy: c, size: uint32(len(it.Record)), cost: uint16(it.Cost),
	}
	if it.Back {
		j.marks = cameBack
		l.aside.back++
		l.aside.backBytes += j.bytes()
	}
	l.turn = max(l.turn, j.base()+it.Cost)
	l.costs(it.Cost)
	l.plain = l.plain && !j.lane.keyed() && it.head.Priority == 0 && it.head.NotBefore.IsZero()
	l.jobs[j.id] = j
	l.expire(j, instant(it.head.ExpiresAt))
	var due leaky.Instant
	if it.State != queue.Waiting {
		due = instant(it.At)
	}
	if it.State == queue.Held {
		l.coming.all++
		l.board(j)
	} else {
		l.expect(j, due)
	}
	e.enqueue(c, &placing{call: c, job: j, it: it, flight: flightOf(j, it, due)})
}

// flightOf is what befell a job before, nil if nothing did that is not in its record.
func flightOf(j *job, it *placed, due leaky.Instant) *flight {
	if it.State != queue.Held && it.Attempts == 0 && it.Reason == "" && (due == 0 || due == instant(it.head.NotBefore)) {
		return nil
	}
	return &flight{job: j, attempts: it.Attempts, due: due, reason: strings.Clone(it.Reason), past: bytes.Clone(it.Timeline), place: -1, saved: true}
}

// placing puts in a job that holds a place.
type placing struct {
	call   *call
	job    *job
	it     *placed
	flight *flight
}

func (c *placing) tally(b *batch) { b.raise(c.job.lane.line, raises{above: c.job.lane.line.parent()}) } // its turn and cost

func (c *placing) write(t *tables) error {
	if c.flight != nil {
		if err := t.putFlight(c.job.seq, c.it.State, c.flight); err != nil {
			return err
		}
	}
	return t.putJob(c.job, c.it.Record)
}

func (c *placing) done(e *Engine, now leaky.Instant) {
	j := c.job
	j.busy = nil
	c.it.outcome = queue.Placed
	if c.it.State == queue.Held {
		j.lane.line.coming.all--
		j.flight = c.flight
		e.move(j, queue.Held)
		j.lane.line.held.push(j.flight)
		c.call.settle(nil)
		return
	}
	if c.it.Holds && j.flight != nil {
		j.flight.counts = true
		j.lane.flying++
	}
	arrived := e.arrive(j, now)
	switch f := c.flight; {
	case f != nil && j.flight != nil:
		j.flight.attempts, j.flight.reason, j.flight.past, j.flight.saved = f.attempts, f.reason, f.past, true
	case f != nil:
		j.flight = f
	}
	if arrived {
		e.due(j.lane.line, now)
	}
	c.call.settle(nil)
}

func (c *placing) undone(e *Engine, err error) {
	c.job.busy = nil
	if l := c.job.lane.line; c.it.State == queue.Held {
		l.coming.all--
	} else {
		l.arrived(c.job)
	}
	e.vacate(c.job, e.now())
	c.it.err = err
	c.call.settle(err)
}

func (c *placing) frees() bool { return false }

// placeEnded remembers a job that ended.
func (e *Engine) placeEnded(it *placed, l *line, c *call) {
	e.store.ended++
	d := &ended{
		id: strings.Clone(it.ID), key: e.store.ended, state: it.State, result: it.State, print: it.print, cost: uint16(it.Cost), attempts: it.Attempts,
		appended: instant(it.AppendedAt), at: instant(it.At), reason: strings.Clone(it.Reason),
	}
	if it.State == queue.Dead {
		e.store.seq++
		d.seq = e.store.seq
	}
	l.start(d.id, c)
	e.enqueue(c, &recalling{call: c, line: l, was: d, it: it})
}

// recalling remembers a job that ended elsewhere.
type recalling struct {
	call *call
	line *line
	was  *ended
	it   *placed
}

func (c *recalling) tally(*batch) {}

func (c *recalling) write(t *tables) error {
	if d := c.was; d.seq != 0 {
		j := &job{id: d.id, lane: &c.line.bare, seq: d.seq, turn: firstTurn, appended: d.appended}
		if err := t.putJob(j, c.it.Record); err != nil {
			return err
		}
	}
	return t.putEnded(c.line, c.was, c.it.Timeline)
}

func (c *recalling) done(e *Engine, _ leaky.Instant) {
	c.line.stop(c.was.id)
	c.line.ended.add(c.was)
	if c.was.state == queue.Dead {
		e.lay(c.line.spec.Name, c.was)
	}
	c.it.outcome = queue.Placed
	c.call.settle(nil)
}

func (c *recalling) undone(_ *Engine, err error) {
	c.line.stop(c.was.id)
	c.it.err = err
	c.call.settle(err)
}

func (c *recalling) frees() bool { return false }
