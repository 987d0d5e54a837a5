package boltq

import (
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// readmitting is what a Readmit changes, first as it is judged and then on its way
// to disk.
type readmitting struct {
	call     *call
	line     *line
	of       *readmission
	now      leaky.Instant
	outcomes []queue.ReadmitOutcome

	in       []returned
	dead     []returned // dead letters: the job and how it ended
	ended    []*ended   // cancelled while they were deferred
	spent    []uint64   // the numbers of the records that end
	seqs     []uint64   // and their keys
	ids      []string   // of jobs that hold no place, on which nobody else may decide
	raise    raises
	way      way
	waitsFor int64         // bytes, for which the first that does not pass has no room
	stored   leaky.Instant // when the last one was, or after that
	// begins says that a generation begins, and missing how many records are given up.
	begins  bool
	missing int64
	// seen is what has become of ids in this very call.
	seen map[string]sighting
}

type returned struct {
	job    *job
	record []byte
	end    *ended // of a dead one
}

// sighting is an id that a call has dealt with: the record of it, if there was one,
// counts no longer, and known says that the queue knows it now.
type sighting struct {
	known bool
	print [8]byte
}

func newReadmitting(m *readmission, l *line, c *call, now leaky.Instant) *readmitting {
	w := &readmitting{call: c, line: l, of: m, now: now, way: l.aside.way, outcomes: make([]queue.ReadmitOutcome, len(m.jobs))}
	if w.way.overflow != m.Overflow {
		w.way.overflow, w.way.order = strings.Clone(m.Overflow), 0
	}
	return w
}

// judge decides the jobs in order, up to the first that cannot pass, and reserves
// what they take.
func (w *readmitting) judge(e *Engine) {
	l := w.line
	behind := w.of.Behind
	for i := range w.of.jobs {
		a := &w.of.jobs[i]
		w.outcomes[i] = w.one(e, a)
		if a.ticket.line == l.number { // by this clock, then
			w.stored = min(leaky.Instant(a.At.UnixMicro()), w.now)
		}
		if !w.outcomes[i].Final() {
			behind += int64(len(w.of.jobs) - i)
			break
		}
		w.way.order = max(w.way.order, a.Order)
	}
	if a := w.way.announced; a > 0 && instant(w.of.AsOf) <= a { // he may not have seen it
		behind = max(behind, min(w.way.behind, 1))
	}
	w.way.behind = behind
	if len(w.of.jobs) > 0 || w.of.Empty {
		l.aside.headNeeds = w.waitsFor
	}
	if w.of.Empty {
		w.stored = w.now
	}
	if w.way.genAt.Add(queue.OrphanAfter) < w.stored {
		w.nextGeneration()
	}
}

// nextGeneration begins one: what was stored behind the whole older one has been seen,
// so nothing of that can be on the overflow any more.
func (w *readmitting) nextGeneration() {
	a := &w.line.aside
	w.begins, w.missing = true, a.older.n
	for _, n := range w.spent {
		if a.counts(n) && n <= a.way.gen {
			w.missing--
		}
	}
	w.way.givenUp, w.way.gen, w.way.genAt = a.way.gen, a.tickets, w.now
}

// one decides a job, by the rules of docs/engine.md, Readmit, in their order.
func (w *readmitting) one(e *Engine, a *arrival) queue.ReadmitOutcome {
	l := w.line
	if a.Order <= w.way.order {
		return queue.Passed
	}
	if a.Done {
		w.pass(a)
		return queue.Passed
	}
	if a.Ticket != "" && a.ticket.line != l.number {
		return queue.Orphaned
	}
	if a.record == nil {
		return queue.Unreadable
	}
	if print, known := w.known(a.ID); known {
		if print != a.print {
			return queue.Clash
		}
		return queue.Passed
	}
	number, d := w.recorded(a.ID)
	if d != nil && d.print != a.print {
		return queue.Clash
	}
	if d != nil && d.state == called {
		w.cancelled(e, a, number, d)
		return queue.Passed
	}
	if maxAge := l.spec.Deferred.MaxAge.D(); leaky.Instant(a.At.UnixMicro()).Add(maxAge) < w.now {
		w.bury(e, a, tooOldReason(maxAge))
		return queue.TooOld
	}
	if at := instant(a.ExpiresAt); at != 0 && at <= w.now {
		w.bury(e, a, tooLateReason(a.ExpiresAt))
		return queue.TooLate
	}
	needs, most := queue.SizeOf(a.ID, len(a.record)), e.byteLimit(l)
	if needs > most {
		w.bury(e, a, tooLargeReason(needs, most))
		return queue.TooLarge
	}
	if w.of.Closed || l.places() == 0 {
		return queue.NotYet
	}
	if !l.fitsBack(needs, most) {
		w.waitsFor = needs
		return queue.NotYet
	}
	w.enter(e, a)
	return queue.Returned
}

// known reports whether the queue knows the id, and the fingerprint under it.
func (w *readmitting) known(id string) (print [8]byte, known bool) {
	if s, here := w.seen[id]; here && s.known {
		return s.print, true
	}
	if j := w.line.jobs[id]; j != nil {
		return j.print, true
	}
	if d := w.line.ended.find(id, w.line.spec.Retention, w.now); d != nil {
		return d.print, true
	}
	return print, false
}

// recorded returns the record of a job as deferred, unless this call has ended it.
func (w *readmitting) recorded(id string) (uint64, *deferral) {
	if _, here := w.seen[id]; here {
		return 0, nil
	}
	return w.line.deferral(id, w.now)
}

// see notes what has become of an id, and ends its record, be it one that lapsed.
func (w *readmitting) see(id string, s sighting) {
	if _, here := w.seen[id]; !here {
		if n := w.line.aside.records.find(id); n != 0 {
			w.spent = append(w.spent, n)
			w.seqs = append(w.seqs, w.line.aside.records.get(n).seq)
		}
	}
	if w.seen == nil {
		w.seen = make(map[string]sighting, len(w.of.jobs))
	}
	w.seen[id] = s
}

// claim keeps others from deciding about a job that holds no place.
func (w *readmitting) claim(id string) {
	w.line.start(id, w.call)
	w.ids = append(w.ids, id)
}

// pass ends the record of a job that the caller has dealt with.
func (w *readmitting) pass(a *arrival) {
	number, d := w.recorded(a.ID)
	if d == nil || a.ticket != (ticket{w.line.number, number}) {
		return
	}
	w.see(a.ID, sighting{})
	w.claim(a.ID)
}

// cancelled remembers a job that was cancelled while it was deferred.
func (w *readmitting) cancelled(e *Engine, a *arrival, number uint64, d *deferral) {
	e.store.ended++
	w.ended = append(w.ended, &ended{
		id: strings.Clone(a.ID), key: e.store.ended, state: queue.Cancelled, print: d.print, cost: d.cost, appended: d.at, at: w.now,
	})
	w.see(a.ID, sighting{true, a.print})
	w.claim(a.ID)
}

// bury makes a dead letter of a job that comes too late.
func (w *readmitting) bury(e *Engine, a *arrival, reason string) {
	j := w.job(e, a)
	j.appended = leaky.Instant(a.At.UnixMicro())
	e.store.ended++
	w.dead = append(w.dead, returned{j, a.record, &ended{
		id: j.id, key: e.store.ended, seq: j.seq, state: queue.Dead, print: j.print, cost: j.cost, appended: j.appended, at: w.now, reason: reason,
	}})
	w.see(j.id, sighting{true, a.print})
	w.claim(j.id)
}

// enter reserves a place, which the job takes when it is on disk.
func (w *readmitting) enter(e *Engine, a *arrival) {
	j := w.job(e, a)
	j.lane = w.line.lane(a.Lane, a.lane)
	j.appended, j.busy, j.marks = w.now, w.call, cameBack
	w.raise.with(w.line.enter(j, &a.Job, w.call, w.now))
	w.line.aside.back++
	w.line.aside.backBytes += j.bytes()
	w.in = append(w.in, returned{job: j, record: a.record})
	w.see(j.id, sighting{true, a.print})
}

func (w *readmitting) job(e *Engine, a *arrival) *job {
	e.store.seq++
	return &job{
		id: strings.Clone(a.ID), lane: &w.line.bare, seq: e.store.seq, print: a.print,
		size: uint32(len(a.record)), cost: uint16(max(1, a.Cost)),
	}
}

// changes reports whether there is anything to put on disk.
func (w *readmitting) changes() bool {
	return len(w.in)+len(w.dead)+len(w.ended)+len(w.spent) > 0 || w.way != w.line.aside.way
}

func (w *readmitting) size() int {
	n := 64
	for _, list := range [][]returned{w.in, w.dead} {
		for _, r := range list {
			n += len(r.record)
		}
	}
	return n
}

func (w *readmitting) tally(b *batch) {
	d := b.of(w.line)
	d.counters.appended += int64(len(w.in))
	d.counters.returned += int64(len(w.in))
	d.counters.died += int64(len(w.dead))
	d.counters.missing += w.missing
	b.raise(w.line, w.raise)
	d.way = w.way
}

func (w *readmitting) write(t *tables) error {
	for _, list := range [][]returned{w.in, w.dead} {
		for _, r := range list {
			if err := t.putJob(r.job, r.record); err != nil {
				return err
			}
		}
	}
	for _, r := range w.dead {
		if err := t.putEnded(w.line, r.end, nil); err != nil {
			return err
		}
	}
	for _, d := range w.ended {
		if err := t.putEnded(w.line, d, nil); err != nil {
			return err
		}
	}
	for _, seq := range w.seqs {
		if err := t.dropDeferral(seq); err != nil {
			return err
		}
	}
	return nil
}

func (w *readmitting) done(e *Engine, now leaky.Instant) {
	l := w.line
	w.release()
	due := false
	for _, r := range w.in {
		r.job.busy = nil
		due = e.arrive(r.job, now) || due
	}
	if due {
		e.due(l, now)
	}
	for _, r := range w.dead {
		e.remember(l, r.end, now)
	}
	for _, d := range w.ended {
		e.remember(l, d, now)
	}
	for _, n := range w.spent {
		e.unrecord(l, n)
	}
	if w.begins {
		older := l.aside.older
		e.defers(l, 0, -older.n, -older.cost)
		l.aside.older = tallied{l.count[queue.Deferred], l.aside.cost}
		l.loose.missing += older.n - w.missing // other changes were on their way
		w.missing = older.n
	}
	l.aside.way = w.way
	e.enlist(l)
	w.of.answer(e, l, w.outcomes, w.missing, now)
	w.call.settle(nil)
}

func (w *readmitting) undone(e *Engine, err error) {
	w.release()
	for i := len(w.in) - 1; i >= 0; i-- {
		e.exit(w.in[i].job, e.now())
	}
	w.of.err = err
	w.call.settle(err)
}

// release lets others decide again.
func (w *readmitting) release() {
	w.line.aside.taking = nil
	for _, id := range w.ids {
		w.line.stop(id)
	}
}

// frees: what only ends records makes room.
func (w *readmitting) frees() bool { return len(w.in)+len(w.dead) == 0 }
