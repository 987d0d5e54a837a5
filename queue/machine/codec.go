package machine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// storeRecord is what the store keeps as a whole. It is written with every commit.
type storeRecord struct {
	now      leaky.Instant // the engine's clock, which must not run back after a restart
	commit   uint64        // counts commits, to find out whether one happened
	seq      uint64        // the last key of a job
	ended    uint64        // the last key of an ended job
	deferred uint64        // the last key of a deferral
	revision int64         // the last revision given to any queue, rule or document
	queue    uint64        // the last key of a queue
}

func (s storeRecord) encode() []byte {
	w := writer{}
	w.num(uint64(s.now), s.commit, s.seq, s.ended, s.deferred, uint64(s.revision), s.queue)
	return w
}

func decodeStore(b []byte) (storeRecord, error) {
	r := reader{b: b}
	s := storeRecord{
		now: leaky.Instant(r.num()), commit: r.num(), seq: r.num(), ended: r.num(), deferred: r.num(),
		revision: int64(r.num()), queue: r.num(),
	}
	return s, r.err("store")
}

// queueRecord is what changes with every commit that concerns the queue.
type queueRecord struct {
	counters     queue.Counters
	ceiling      ceilings
	maxCost      int64
	childMaxCost int64
	turn         int64
	tickets      uint64
	progress     overflowProgress
	receiver     receiverState
}

func (l queueRecord) encode() []byte {
	w := writer{}
	w.num(uint64(l.ceiling.tat), uint64(l.maxCost), uint64(l.childMaxCost), uint64(l.turn-firstTurn))
	w.counters(&l.counters)
	w.num(
		l.tickets, uint64(l.progress.order), uint64(l.progress.behind), uint64(l.progress.announced),
		l.progress.givenUpTo, l.progress.olderUpTo, uint64(l.progress.generationSince),
	)
	w.text(l.progress.overflow)
	w.num(uint64(len(l.ceiling.limits)))
	for _, c := range l.ceiling.limits {
		w.num(uint64(c.Ends), uint64(c.Used))
	}
	r := &l.receiver
	w.num(
		uint64(r.stop), uint64(r.failures), uint64(r.opened), uint64(r.probe), uint64(r.throttles),
		uint64(r.throttledUntil), uint64(r.slowAt),
	)
	for _, s := range []string{string(r.cause), r.reason, r.lastFailure} {
		w.text(s)
	}
	return w
}

func decodeQueue(b []byte) (queueRecord, error) {
	r := reader{b: b}
	l := queueRecord{
		ceiling: ceilings{tat: leaky.Instant(r.num())}, maxCost: int64(r.num()), childMaxCost: int64(r.num()),
		turn: firstTurn + int64(r.num()),
	}
	l.counters.Add(r.counters())
	l.tickets = r.num()
	l.progress = overflowProgress{
		order: int64(r.num()), behind: int64(r.num()), announced: leaky.Instant(r.num()), givenUpTo: r.num(),
		olderUpTo: r.num(), generationSince: leaky.Instant(r.num()), overflow: r.text(),
	}
	for n := min(r.num(), queue.MaxLimits); n > 0; n-- {
		l.ceiling.limits = append(l.ceiling.limits, leaky.Window{Ends: leaky.Instant(r.num()), Used: int64(r.num())})
	}
	l.receiver = receiverState{
		stop: leaky.Instant(r.num()), failures: int32(r.num()), opened: leaky.Instant(r.num()),
		probe:     time.Duration(r.num()),
		throttles: int32(r.num()), throttledUntil: leaky.Instant(r.num()), slowAt: leaky.Instant(r.num()),
		cause: queue.StopCause(r.text()), reason: r.text(), lastFailure: r.text(),
	}
	return l, r.err("queue")
}

// specRecord is what operators decide about a queue.
type specRecord struct {
	spec     queue.Spec
	text     []byte // text of the spec, if already encoded
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
	w.text(s.pause.note)
	w.text(s.pause.reason)
	return append(w, text...), nil
}

func decodeSpec(b []byte) (s specRecord, err error) {
	r := reader{b: b}
	s.revision = int64(r.num())
	s.pause = pause{
		since: leaky.Instant(r.num()), until: leaky.Instant(r.num()), by: r.text(), note: r.text(), reason: r.text(),
	}
	if err := r.err("spec"); err != nil {
		return s, err
	}
	if s.spec, err = queue.ParseSpec(r.b); err != nil {
		return s, fmt.Errorf("%w: a spec: %w", queue.ErrCorrupt, err)
	}
	return s, nil
}

// encodePaces encodes the paces of a deleted queue, in which every Rem is 0.
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

func decodePaces(b []byte, env *Environment, now leaky.Instant) (p paces, err error) {
	r := reader{b: b}
	p.pacer = leaky.Pacer{
		Rate: leaky.RateOf(int64(r.num()), int64(r.num())), Burst: int64(r.num()), Horizon: queue.Horizon,
	}
	p.bucket = r.bucket()
	for n := r.num(); n > 0 && !r.bad; n-- {
		var of queue.Limit
		text := r.text()
		if err := json.Unmarshal([]byte(text), &of); err != nil {
			return p, fmt.Errorf("%w: the limit of a deleted queue: %w", queue.ErrCorrupt, err)
		}
		m, err := newLimit(of, env, now)
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

// jobHead is stored before a job's record.
type jobHead struct {
	queue      uint64
	base       int64 // its turn without its priority, which the record has
	appended   leaky.Instant
	readmitted bool
	id         string
}

// encodeJobHead encodes the head of a job whose record has that size.
func encodeJobHead(j *job, size int) []byte {
	w := make(writer, 0, size+len(j.id)+32)
	w.num(j.lane.queue.number, uint64(j.turnBase()-firstTurn), uint64(j.appended))
	w = append(w, byte(j.marks&readmitted))
	w.text(j.id)
	return w
}

// decodeJob splits a stored job; the record shares memory with b.
func decodeJob(b []byte) (h jobHead, record []byte, err error) {
	r := reader{b: b}
	h = jobHead{
		queue: r.num(), base: firstTurn + int64(r.num()), appended: leaky.Instant(r.num()),
		readmitted: marks(r.byte())&readmitted != 0, id: r.text(),
	}
	return h, r.b, r.err("job")
}

func encodeLease(s queue.State, ls *lease) []byte {
	w := writer{byte(s), byte(ls.verdict), byte(ls.result)}
	w.num(uint64(ls.attempts), uint64(ls.due), ls.settled.epoch, ls.settled.number)
	w.text(ls.reason)
	if s == queue.Leased {
		w.text(ls.drainer)
	}
	return append(w, ls.timeline...)
}

func decodeLease(b []byte) (s queue.State, ls lease, err error) {
	r := reader{b: b}
	s, ls.verdict, ls.result = queue.State(r.byte()), queue.Verdict(r.byte()), queue.State(r.byte())
	ls.attempts, ls.due = int(r.num()), leaky.Instant(r.num())
	ls.settled = fence{r.num(), r.num()}
	ls.reason = r.text()
	if s == queue.Leased {
		ls.drainer = r.text()
	}
	ls.timeline = bytes.Clone(r.b)
	ls.heapIndex, ls.onFile = -1, true
	return s, ls, r.err("lease")
}

func encodeEnded(q *queueState, d *endedJob, past []byte) []byte {
	w := make(writer, 0, 64+len(d.id)+len(d.reason)+len(past))
	w = append(w, byte(d.state), byte(d.verdict), byte(d.result))
	w = append(w, d.fingerprint[:]...)
	w.num(
		q.number, d.seq, d.fence.epoch, d.fence.number, uint64(d.cost), uint64(d.attempts), uint64(d.appended),
		uint64(d.at),
	)
	w.text(d.id)
	w.text(d.reason)
	if d.state == queue.Dead { // it outlives its queue
		w.text(q.name)
	}
	return append(w, past...)
}

// decodeEnded decodes an ended job. name is the queue of a dead job; past shares memory with b.
func decodeEnded(b []byte) (owner uint64, d *endedJob, name string, past []byte, err error) {
	r := reader{b: b}
	d = &endedJob{state: queue.State(r.byte()), verdict: queue.Verdict(r.byte()), result: queue.State(r.byte())}
	for i := range d.fingerprint {
		d.fingerprint[i] = r.byte()
	}
	owner, d.seq, d.fence = r.num(), r.num(), fence{r.num(), r.num()}
	d.cost, d.attempts = uint16(r.num()), int(r.num())
	d.appended, d.at = leaky.Instant(r.num()), leaky.Instant(r.num())
	d.id, d.reason = r.text(), r.text()
	if d.state == queue.Dead {
		name = r.text()
	}
	return owner, d, name, r.b, r.err("ended job")
}

func encodeDeferral(owner, number uint64, id string, d deferral) []byte {
	w := writer{byte(d.state)}
	w = append(w, d.fingerprint[:]...)
	w.num(owner, number, uint64(d.at), uint64(d.cost))
	w.text(id)
	w.num(uint64(d.size))
	return w
}

func decodeDeferral(b []byte) (owner, number uint64, id string, d deferral, err error) {
	r := reader{b: b}
	d.state = deferralState(r.byte())
	for i := range d.fingerprint {
		d.fingerprint[i] = r.byte()
	}
	owner, number, d.at, d.cost, id = r.num(), r.num(), leaky.Instant(r.num()), uint16(r.num()), r.text()
	if d.length = uint8(len(id)); len(r.b) > 0 { // else the record is older than this field
		d.size = uint32(r.num())
	}
	if err = r.err("deferred job"); err == nil &&
		(d.state != stillDeferred && d.state != cancelledDeferral || id == "" || len(id) > names.MaxIDBytes) {
		err = fmt.Errorf("%w: a deferred job that no job can be", queue.ErrCorrupt)
	}
	return owner, number, id, d, err
}

// writer builds a record: numbers as uvarints, texts prefixed with their length.
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

// reader decodes a record. After the first fault it returns zeros.
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

// raw returns the next n bytes, which share memory with the record.
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

// counted returns the sum of counters.
func counted(parts ...queue.Counters) (sum queue.Counters) {
	for n := range parts {
		sum.Add(parts[n].Values())
	}
	return sum
}

// counters writes the number of counters and then each. A file with fewer has not counted the others yet.
func (w *writer) counters(c *queue.Counters) {
	values := c.Values()
	w.num(uint64(len(values)))
	for _, v := range values {
		w.num(uint64(v))
	}
}

func (r *reader) counters() []int64 {
	values := make([]int64, min(r.num(), uint64(len(queue.CounterTable))))
	for n := range values {
		values[n] = int64(r.num())
	}
	return values
}
