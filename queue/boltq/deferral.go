package boltq

import (
	"strconv"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// aside is what a queue keeps of the jobs that wait on the overflow. How many
// there are stands among its counts, as queue.Deferred.
type aside struct {
	records ledger
	cost    int64   // of those that count as deferred
	older   tallied // those of them whose generation is the older one
	tickets uint64  // the number of the latest deferral
	leaving int64   // deferrals that are not on disk yet
	owing   int64   // their cost
	back    int64   // how many of the jobs that hold a place came back, or are about to
	way     way     // on disk
	// backBytes is what those take, and headNeeds what the first on the overflow does if a Readmit found that it does not fit.
	backBytes, headNeeds int64
	taking               *call            // the Readmit under way; nil if none
	busy                 map[string]*call // changes under way of jobs that hold no place, by id
	holder               string           // who has the way back to himself, until
	till                 leaky.Instant
	told                 leaky.Instant // when it was last said that there is room; 0 is before the last Readmit
}

// takeBack takes back the number of a deferral that is not on disk after all. A Readmit
// under way may have begun a generation with it.
func (a *aside) takeBack(number uint64) {
	if a.tickets == number && a.taking == nil {
		a.tickets--
	}
}

// way is how far a queue's overflow was taken back.
type way struct {
	overflow  string // what the order counts in
	order     int64
	behind    int64
	announced leaky.Instant // when something was last announced to be there; 0 is never
	givenUp   uint64        // the ticket up to which records no longer count
	gen       uint64        // the ticket up to which they are of the older generation
	genAt     leaky.Instant // when the present one began
}

// tallied is how many records, and what their jobs cost.
type tallied struct{ n, cost int64 }

// ticket names a deferral: the queue's number, which no other queue will have, not
// even one of the same name, and that of the deferral in it.
type ticket struct{ line, number uint64 }

func (t ticket) text() queue.Ticket {
	b := make([]byte, 0, 27)
	b = strconv.AppendUint(b, t.line, 36)
	b = strconv.AppendUint(append(b, '.'), t.number, 36)
	return queue.Ticket(b)
}

// parseTicket reads what text wrote; anything else is the zero ticket, which no
// deferral has.
func parseTicket(s queue.Ticket) ticket {
	line, number, _ := strings.Cut(string(s), ".")
	var t ticket
	var err1, err2 error
	t.line, err1 = strconv.ParseUint(line, 36, 64)
	t.number, err2 = strconv.ParseUint(number, 36, 64)
	if err1 != nil || err2 != nil || t.text() != s {
		return ticket{}
	}
	return t
}

// moving returns the change under way of a job that holds no place. A Readmit may
// give up every record of the older generation.
func (l *line) moving(id string) *call {
	a := &l.aside
	if c := a.busy[id]; c != nil || a.taking == nil {
		return c
	}
	if n := a.records.find(id); n != 0 && n <= a.way.gen {
		return a.taking
	}
	return nil
}

// start notes a change under way of a job that holds no place, until stop.
func (l *line) start(id string, c *call) {
	if l.aside.busy == nil {
		l.aside.busy = map[string]*call{}
	}
	l.aside.busy[id] = c
}

func (l *line) stop(id string) { delete(l.aside.busy, id) }

// backlog reports whether jobs wait on the overflow, or are about to.
func (l *line) backlog() bool { return l.onOverflow()+l.aside.leaving > 0 }

// onOverflow is about how many jobs wait there: as recorded and as seen.
func (l *line) onOverflow() int64 { return l.count[queue.Deferred] + l.aside.way.behind }

// deferral returns the record of id that stands, and its number; nil if there is
// none.
func (l *line) deferral(id string, now leaky.Instant) (uint64, *deferral) {
	n := l.aside.records.find(id)
	if n == 0 || l.lapsed(n, now) {
		return 0, nil
	}
	return n, l.aside.records.get(n)
}

// lapsed reports whether a record that is there counts no longer: it was given up,
// or no copy of its job can come back any more.
func (l *line) lapsed(n uint64, now leaky.Instant) bool {
	life := l.spec.Deferred.MaxAge.D() + l.spec.Retention.For.D()
	return n <= l.aside.way.givenUp || now.Sub(l.aside.records.get(n).at) >= life
}

// unrecord ends the record of that number, if it is there.
func (e *Engine) unrecord(l *line, n uint64) {
	if d := l.aside.records.get(n); d != nil {
		e.uncount(l, n, d)
		l.aside.records.remove(n)
	}
}

// counts reports whether the record of that number, which is there, is among the
// deferred.
func (a *aside) counts(n uint64) bool {
	return n > a.way.givenUp && a.records.get(n).state == deferred
}

// uncount takes a record out of the numbers of the deferred, if it is among them.
func (e *Engine) uncount(l *line, n uint64, d *deferral) (counted bool) {
	if counted = l.aside.counts(n); counted {
		e.defers(l, n, -1, -int64(d.cost))
	}
	return counted
}

// defers counts n more jobs of that cost as deferred, under that number.
func (e *Engine) defers(l *line, number uint64, n, cost int64) {
	l.count[queue.Deferred] += n
	e.count[queue.Deferred] += n
	l.aside.cost += cost
	if number <= l.aside.way.gen {
		l.aside.older.n += n
		l.aside.older.cost += cost
	}
	e.enlist(l)
}

// enlist keeps the list of queues with a backlog.
func (e *Engine) enlist(l *line) {
	if l.live && l.onOverflow() > 0 {
		e.backlogs[l] = struct{}{}
	} else {
		delete(e.backlogs, l)
	}
}

// expunge forgets up to limit records that count no longer, the oldest first.
func (e *Engine) expunge(l *line, now leaky.Instant, limit int) {
	g := &l.aside.records
	for ; limit > 0 && g.n > 0; limit-- {
		n := g.oldest()
		if !l.lapsed(n, now) || l.aside.taking != nil || l.moving(string(g.id(n))) != nil {
			return
		}
		e.lose(l, n)
	}
}

// lose ends a record that lapsed. Its job was missing if it was still counted.
func (e *Engine) lose(l *line, n uint64) {
	d := l.aside.records.get(n)
	e.expunged = append(e.expunged, d.seq)
	if e.uncount(l, n, d) {
		l.loose.missing++
	}
	l.aside.records.remove(n)
}
