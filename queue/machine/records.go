package machine

import (
	"bytes"
	"encoding/json"
	"fmt"

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
	ahead    leaky.Instant // how far the engine's clock is ahead of the wall clock; mostly 0, and then not on file
}

func (s *storeRecord) fields() []any {
	return []any{&s.now, &s.commit, &s.seq, &s.ended, &s.deferred, &s.revision, &s.queue}
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
	learned      string // packed
}

func (q *queueRecord) code(c *codec) {
	turn, p, r, limits := q.turn-firstTurn, &q.progress, &q.receiver, len(q.ceiling.limits)
	c.fields(
		&q.ceiling.tat, &q.maxCost, &q.childMaxCost, &turn, &q.counters, &q.tickets,
		&p.order, &p.behind, &p.announced, &p.givenUpTo, &p.olderUpTo, &p.generationSince, &p.overflow, &limits,
	)
	if q.turn = firstTurn + turn; c.decoding && limits != 0 {
		q.ceiling.limits = make([]leaky.Window, min(uint64(limits), queue.MaxLimits))
	}
	for i := range q.ceiling.limits {
		c.fields(&q.ceiling.limits[i])
	}
	c.fields(
		&r.stop, &r.failures, &r.opened, &r.probe, &r.throttles, &r.throttledUntil, &r.slowAt, &r.cause, &r.reason,
		&r.lastFailure,
	)
	if q.learned != "" || c.decoding && len(c.b) > 0 {
		c.fields(&q.learned)
	}
}

func decodeQueue(b []byte) (q queueRecord, err error) {
	c := decoder(b)
	q.code(c)
	return q, c.err("queue")
}

// specRecord is what operators decide about a queue.
type specRecord struct {
	spec     queue.Spec
	text     []byte // text of the spec, if already encoded
	revision int64
	pause    pause
}

func (s *specRecord) fields() []any {
	return []any{&s.revision, &s.pause.since, &s.pause.until, &s.pause.by, &s.pause.note, &s.pause.reason}
}

func (s *specRecord) encode() ([]byte, error) {
	text := s.text
	if text == nil {
		var err error
		if text, err = queue.EncodeSpec(s.spec); err != nil {
			return nil, err
		}
	}
	return append(encode(s.fields()...), text...), nil
}

func decodeSpec(b []byte) (s specRecord, err error) {
	text, err := decode(b, "spec", s.fields()...)
	if err != nil {
		return s, err
	}
	if s.spec, err = queue.ParseSpec(text); err != nil {
		return s, fmt.Errorf("%w: a spec: %w", queue.ErrCorrupt, err)
	}
	return s, nil
}

// encodePaces encodes the paces of a deleted queue, in which every Rem is 0.
func encodePaces(p *paces) ([]byte, error) {
	c, n := &codec{}, len(p.limits)
	c.fields(&p.pacer.Rate, &p.pacer.Burst, &p.bucket, &n)
	for i := range p.limits {
		l := &p.limits[i]
		text, err := json.Marshal(l.Limit)
		if err != nil {
			return nil, err
		}
		s := l.shown()
		c.fields(&text, &s.Bucket, &s.Window)
	}
	return c.b, nil
}

func decodePaces(b []byte, env *Environment, now leaky.Instant) (p paces, err error) {
	c, n := decoder(b), uint64(0)
	p.pacer.Horizon = queue.Horizon
	for c.fields(&p.pacer.Rate, &p.pacer.Burst, &p.bucket, &n); n > 0 && !c.bad; n-- {
		var of queue.Limit
		var text []byte
		c.fields(&text)
		if err := json.Unmarshal(text, &of); err != nil {
			return p, fmt.Errorf("%w: the limit of a deleted queue: %w", queue.ErrCorrupt, err)
		}
		l, err := newLimit(of, env, now)
		if err != nil {
			return p, err
		}
		var s queue.LimitState
		c.fields(&s.Bucket, &s.Window)
		l.setShown(s)
		p.limits = append(p.limits, l)
	}
	return p, c.err("bucket")
}

// jobHead is stored before a job's record.
type jobHead struct {
	queue    uint64
	base     int64 // its turn without its priority, which the record has
	appended leaky.Instant
	marks    marks // readmitted or nothing
	id       string
}

func (h *jobHead) code(c *codec) {
	base := h.base - firstTurn
	c.fields(&h.queue, &base, &h.appended, &h.marks, &h.id)
	h.base = firstTurn + base
}

// encodeJobHead encodes the head of a job whose record has that size.
func encodeJobHead(j *job, size int) []byte {
	h := jobHead{j.lane.queue.number, j.turnBase(), j.appended, j.marks & readmitted, j.id}
	c := &codec{b: make([]byte, 0, size+len(j.id)+32)}
	h.code(c)
	return c.b
}

// decodeJob splits a stored job; the record shares memory with b.
func decodeJob(b []byte) (h jobHead, record []byte, err error) {
	c := decoder(b)
	h.code(c)
	return h, c.b, c.err("job")
}

func (ls *lease) code(c *codec, s *queue.State) {
	c.fields(s, &ls.verdict, &ls.result, &ls.attempts, &ls.due, &ls.settled.epoch, &ls.settled.number, &ls.reason)
	if *s == queue.Leased {
		c.fields(&ls.drainer)
	}
}

func encodeLease(s queue.State, ls *lease) []byte {
	c := &codec{}
	ls.code(c, &s)
	return append(c.b, ls.timeline...)
}

func decodeLease(b []byte) (s queue.State, ls lease, err error) {
	c := decoder(b)
	ls.code(c, &s)
	ls.timeline = bytes.Clone(c.b)
	ls.heapIndex, ls.onFile = -1, true
	return s, ls, c.err("lease")
}

func (d *endedJob) code(c *codec, owner *uint64, name *string) {
	c.fields(&d.state, &d.verdict, &d.result)
	c.raw(d.fingerprint[:])
	c.fields(
		owner, &d.seq, &d.fence.epoch, &d.fence.number, &d.cost, &d.attempts, &d.appended, &d.at, &d.id, &d.reason,
	)
	if d.state == queue.Dead { // it outlives its queue
		c.fields(name)
	}
}

func encodeEnded(q *queueState, d *endedJob, past []byte) []byte {
	c := &codec{b: make([]byte, 0, 64+len(d.id)+len(d.reason)+len(past))}
	d.code(c, &q.number, &q.name)
	return append(c.b, past...)
}

// decodeEnded decodes an ended job. name is the queue of a dead job; past shares memory with b.
func decodeEnded(b []byte) (owner uint64, d *endedJob, name string, past []byte, err error) {
	c := decoder(b)
	d = &endedJob{}
	d.code(c, &owner, &name)
	return owner, d, name, c.b, c.err("ended job")
}

func (d *deferral) code(c *codec, owner, number *uint64, id, label *string) {
	c.fields(&d.state)
	c.raw(d.fingerprint[:])
	c.fields(owner, number, &d.at, &d.cost, id)
	if !c.decoding || len(c.b) > 0 { // else the record is older than this field
		c.fields(&d.size)
	}
	if *label != "" || c.decoding && len(c.b) > 0 {
		c.fields(label)
	}
}

func encodeDeferral(owner, number uint64, id string, d deferral, label string) []byte {
	c := &codec{}
	d.code(c, &owner, &number, &id, &label)
	return c.b
}

func decodeDeferral(b []byte) (owner, number uint64, id string, d deferral, label string, err error) {
	c := decoder(b)
	d.code(c, &owner, &number, &id, &label)
	d.length = uint8(len(id))
	if err = c.err("deferred job"); err == nil &&
		(d.state != stillDeferred && d.state != cancelledDeferral || id == "" || len(id) > names.MaxIDBytes) {
		err = fmt.Errorf("%w: an impossible deferred job", queue.ErrCorrupt)
	}
	return owner, number, id, d, label, err
}
