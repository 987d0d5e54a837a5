package boltq

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// storeRecord is what the store as a whole keeps, written with every commit.
type storeRecord struct {
	now      leaky.Instant // the engine's clock, which must not run back over a reopening
	commit   uint64        // counts commits, to tell whether one happened
	seq      uint64        // the last key of a job
	ended    uint64        // the last key of an ended job
	deferred uint64        // the last key of a deferred job
	revision int64         // the last one given to any queue
	line     uint64        // the last key of a queue
}

func (s storeRecord) encode() []byte {
	w := writer{}
	w.num(uint64(s.now), s.commit, s.seq, s.ended, s.deferred, uint64(s.revision), s.line)
	return w
}

func decodeStore(b []byte) (storeRecord, error) {
	r := reader{b: b}
	s := storeRecord{
		now: leaky.Instant(r.num()), commit: r.num(), seq: r.num(), ended: r.num(), deferred: r.num(),
		revision: int64(r.num()), line: r.num(),
	}
	return s, r.err("store")
}

// lineRecord is what changes about a queue with every commit that concerns it.
type lineRecord struct {
	counters
	ceiling ceilings
	maxCost int64
	dearer  int64
	turn    int64
	tickets uint64
	way     way
	heard   heard
}

func (l lineRecord) encode() []byte {
	w := writer{}
	w.num(uint64(l.ceiling.tat), uint64(l.maxCost), uint64(l.dearer), uint64(l.turn-firstTurn))
	c := l.counters
	for _, v := range c.all() {
		w.num(uint64(*v))
	}
	w.num(l.tickets, uint64(l.way.order), uint64(l.way.behind), uint64(l.way.announced), l.way.givenUp, l.way.gen, uint64(l.way.genAt))
	w.text(l.way.overflow)
	w.num(uint64(len(l.ceiling.limits)))
	for _, c := range l.ceiling.limits {
		w.num(uint64(c.Ends), uint64(c.Used))
	}
	h := &l.heard
	w.num(uint64(h.stop), uint64(h.failures), uint64(h.opened), uint64(h.probe), uint64(h.spared), uint64(h.till))
	for _, s := range []string{string(h.cause), h.why, h.fault} {
		w.text(s)
	}
	return w
}

func decodeLine(b []byte) (lineRecord, error) {
	r := reader{b: b}
	l := lineRecord{ceiling: ceilings{tat: leaky.Instant(r.num())}, maxCost: int64(r.num()), dearer: int64(r.num()), turn: firstTurn + int64(r.num())}
	for _, v := range l.counters.all() {
		*v = int64(r.num())
	}
	l.tickets = r.num()
	l.way = way{
		order: int64(r.num()), behind: int64(r.num()), announced: leaky.Instant(r.num()), givenUp: r.num(), gen: r.num(), genAt: leaky.Instant(r.num()), overflow: r.text(),
	}
	for n := min(r.num(), queue.MaxLimits); n > 0; n-- {
		l.ceiling.limits = append(l.ceiling.limits, leaky.Window{Ends: leaky.Instant(r.num()), Used: int64(r.num())})
	}
	l.heard = heard{
		stop: leaky.Instant(r.num()), failures: int64(r.num()), opened: leaky.Instant(r.num()), probe: time.Duration(r.num()),
		spared: int64(r.num()), till: leaky.Instant(r.num()),
		cause: queue.HoldCause(r.text()), why: r.text(), fault: r.text(),
	}
	return l, r.err("line")
}

// specRecord is what people decide about a queue.
type specRecord struct {
	spec     queue.Spec
	text     []byte // of it, if it is at hand
	revision int64
	pause    pause
}

func (s specRecord) encode() ([]byte, error) {
	text := s.text
	if text == nil {
		var err error
		if text, err = queue.EncodeSpec(s.spec); err != nil {
			return nil, err
		}
	}
	w := writer{}
	w.num(uint64(s.revision), uint64(s.pause.since), uint64(s.pause.until))
	w.text(s.pause.by)
	w.text(s.pause.reason)
	return append(w, text...), nil
}

func decodeSpec(b []byte) (s specRecord, err error) {
	r := reader{b: b}
	s.revision = int64(r.num())
	s.pause = pause{since: leaky.Instant(r.num()), until: leaky.Instant(r.num()), by: r.text(), reason: r.text()}
	if err := r.err("spec"); err != nil {
		return s, err
	}
	if s.spec, err = queue.ParseSpec(r.b); err != nil {
		return s, fmt.Errorf("%w: a spec: %w", queue.ErrCorrupt, err)
	}
	return s, nil
}

// encodePaces keeps what a deleted queue left: no Rem is above 0 in it.
func encodePaces(p *paces) ([]byte, error) {
	w := writer{}
	n, d := p.pacer.Rate.Fraction()
	w.num(uint64(n), uint64(d), uint64(p.pacer.Burst))
	w.bucket(p.bucket)
	w.num(uint64(len(p.limits)))
	for _, m := range p.limits {
		text, err := json.Marshal(m.Limit)
		if err != nil {
			return nil, err
		}
		w.text(string(text))
		w.bucket(m.bucket)
		w.num(uint64(m.window.Ends), uint64(m.window.Used))
	}
	return w, nil
}

func decodePaces(b []byte, now leaky.Instant) (p paces, err error) {
	r := reader{b: b}
	p.pacer = leaky.Pacer{Rate: leaky.RateOf(int64(r.num()), int64(r.num())), Burst: int64(r.num()), Horizon: queue.Horizon}
	p.bucket = r.bucket()
	for n := r.num(); n > 0 && !r.bad; n-- {
		var of queue.Limit
		text := r.text()
		if err := json.Unmarshal([]byte(text), &of); err != nil {
			return p, fmt.Errorf("%w: the limit of a deleted queue: %w", queue.ErrCorrupt, err)
		}
		m, err := newLimit(of, now)
		if err != nil {
			return p, err
		}
		m.bucket = r.bucket()
		m.window = leaky.Window{Ends: leaky.Instant(r.num()), Used: int64(r.num())}
		p.limits = append(p.limits, m)
	}
	return p, r.err("bucket")
}

func (w *writer) bucket(b leaky.Bucket) {
	w.num(uint64(b.TAT), uint64(b.Last), uint64(b.LastCost))
}

func (r *reader) bucket() leaky.Bucket {
	return leaky.Bucket{TAT: leaky.Instant(r.num()), Last: leaky.Instant(r.num()), LastCost: int64(r.num())}
}

// jobHead is what stands before a job's record.
type jobHead struct {
	line     uint64
	base     int64 // its turn without its priority, which is in the record
	appended leaky.Instant
	back     bool
	id       string
}

func encodeJob(j *job, record []byte) []byte {
	w := make(writer, 0, len(record)+len(j.id)+32)
	w.num(j.lane.line.number, uint64(j.base()-firstTurn), uint64(j.appended))
	w = append(w, byte(j.marks&cameBack))
	w.text(j.id)
	return append(w, record...)
}

// decodeJob takes a job apart; the record shares memory with b.
func decodeJob(b []byte) (h jobHead, record []byte, err error) {
	r := reader{b: b}
	h = jobHead{line: r.num(), base: firstTurn + int64(r.num()), appended: leaky.Instant(r.num()), back: marks(r.byte())&cameBack != 0, id: r.text()}
	return h, r.b, r.err("job")
}

func encodeFlight(s queue.State, f *flight) []byte {
	w := writer{byte(s), byte(f.verdict), byte(f.result)}
	w.num(uint64(f.attempts), uint64(f.due), f.settled.epoch, f.settled.number)
	w.text(f.reason)
	if s == queue.Leased {
		w.text(f.drainer)
	}
	return append(w, f.past...)
}

func decodeFlight(b []byte) (s queue.State, f flight, err error) {
	r := reader{b: b}
	s, f.verdict, f.result = queue.State(r.byte()), queue.Verdict(r.byte()), queue.State(r.byte())
	f.attempts, f.due = int(r.num()), leaky.Instant(r.num())
	f.settled = fence{r.num(), r.num()}
	f.reason = r.text()
	if s == queue.Leased {
		f.drainer = r.text()
	}
	f.past = bytes.Clone(r.b)
	f.place, f.saved = -1, true
	return s, f, r.err("flight")
}

func encodeEnded(l *line, d *ended, past []byte) []byte {
	w := writer{byte(d.state), byte(d.verdict), byte(d.result)}
	w = append(w, d.print[:]...)
	w.num(l.number, d.seq, d.fence.epoch, d.fence.number, uint64(d.cost), uint64(d.attempts), uint64(d.appended), uint64(d.at))
	w.text(d.id)
	w.text(d.reason)
	if d.state == queue.Dead { // which outlives its queue
		w.text(l.spec.Name)
	}
	return append(w, past...)
}

// decodeEnded takes a record apart; name is that of a dead one's queue, and past shares memory
// with b.
func decodeEnded(b []byte) (line uint64, d *ended, name string, past []byte, err error) {
	r := reader{b: b}
	d = &ended{state: queue.State(r.byte()), verdict: queue.Verdict(r.byte()), result: queue.State(r.byte())}
	for i := range d.print {
		d.print[i] = r.byte()
	}
	line, d.seq, d.fence = r.num(), r.num(), fence{r.num(), r.num()}
	d.cost, d.attempts = uint16(r.num()), int(r.num())
	d.appended, d.at = leaky.Instant(r.num()), leaky.Instant(r.num())
	d.id, d.reason = r.text(), r.text()
	if d.state == queue.Dead {
		name = r.text()
	}
	return line, d, name, r.b, r.err("ended job")
}

func encodeDeferral(line, number uint64, id string, d deferral) []byte {
	w := writer{byte(d.state)}
	w = append(w, d.print[:]...)
	w.num(line, number, uint64(d.at), uint64(d.cost))
	w.text(id)
	return w
}

func decodeDeferral(b []byte) (line, number uint64, id string, d deferral, err error) {
	r := reader{b: b}
	d.state = standing(r.byte())
	for i := range d.print {
		d.print[i] = r.byte()
	}
	line, number, d.at, d.cost, id = r.num(), r.num(), leaky.Instant(r.num()), uint16(r.num()), r.text()
	if err = r.err("deferred job"); err == nil && (d.state != deferred && d.state != called || id == "" || len(id) > queue.MaxIDBytes) {
		err = fmt.Errorf("%w: a deferred job that no job can be", queue.ErrCorrupt)
	}
	return line, number, id, d, err
}

// writer puts a record together: numbers as uvarints, texts with their length.
type writer []byte

func (w *writer) num(vs ...uint64) {
	for _, v := range vs {
		*w = binary.AppendUvarint(*w, v)
	}
}

func (w *writer) text(s string) {
	w.num(uint64(len(s)))
	*w = append(*w, s...)
}

// reader takes a record apart; after the first fault it yields zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) num() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if r.bad || len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) text() string { return string(r.raw(r.num())) }

// raw returns the next n bytes, which share memory with what is read.
func (r *reader) raw(n uint64) []byte {
	if r.bad || uint64(len(r.b)) < n {
		r.bad = true
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) err(what string) error {
	if r.bad {
		return fmt.Errorf("%w: a %s record cut short", queue.ErrCorrupt, what)
	}
	return nil
}
