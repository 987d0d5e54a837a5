package machine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// codec encodes or decodes a record. Each record lists its fields once, for both directions.
type codec struct {
	b        []byte // encoded so far, or left to decode
	decoding bool
	bad      bool // the record is truncated: further fields keep their zero values
}

func decoder(b []byte) *codec { return &codec{b: b, decoding: true} }

func encode(fields ...any) []byte {
	c := &codec{}
	c.fields(fields...)
	return c.b
}

// decode decodes fields and returns the rest of the record; what names the record in errors.
func decode(b []byte, what string, fields ...any) (rest []byte, err error) {
	c := decoder(b)
	c.fields(fields...)
	return c.b, c.err(what)
}

// fields encodes or decodes fields, given by pointers. Numbers and instants are uvarints; texts are prefixed with their
// length.
func (c *codec) fields(fields ...any) {
	for _, f := range fields {
		switch f := f.(type) {
		case *uint64:
			number(c, f)
		case *int64:
			number(c, f)
		case *leaky.Instant:
			number(c, f)
		case *int:
			number(c, f)
		case *int32:
			number(c, f)
		case *uint32:
			number(c, f)
		case *uint16:
			number(c, f)
		case *time.Duration:
			number(c, f)
		case *unit.Duration:
			number(c, f)
		case *queue.State:
			octet(c, f)
		case *queue.Verdict:
			octet(c, f)
		case *deferralState:
			octet(c, f)
		case *marks:
			octet(c, f)
		case *string:
			text(c, f)
		case *queue.StopCause:
			text(c, f)
		case *audit.Budget:
			text(c, f)
		case *changekind.Kind:
			text(c, f)
		case *[]byte:
			c.blob(f)
		case *time.Time:
			if at := instantOf(*f); number(c, &at) && at != 0 {
				*f = at.Time()
			}
		case *leaky.Rate:
			n, d := f.Fraction()
			number(c, &n)
			if number(c, &d) {
				*f = leaky.RateOf(n, d)
			}
		case *leaky.Bucket:
			c.fields(&f.TAT, &f.Last, &f.LastCost)
		case *leaky.Window:
			c.fields(&f.Ends, &f.Used)
		case *queue.Counters:
			c.counters(f)
		default:
			panic("machine: a field without an encoding")
		}
	}
}

// number encodes or decodes a number, and reports whether it decoded.
func number[T ~int | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64](c *codec, f *T) bool {
	if !c.decoding {
		c.b = binary.AppendUvarint(c.b, uint64(*f))
		return false
	}
	v, n := binary.Uvarint(c.b)
	if c.bad = c.bad || n <= 0; c.bad {
		v, n = 0, 0
	}
	*f, c.b = T(v), c.b[n:]
	return true
}

func octet[T ~uint8](c *codec, f *T) {
	if !c.decoding {
		c.b = append(c.b, byte(*f))
	} else if b := c.next(1); b != nil {
		*f = T(b[0])
	}
}

func text[T ~string](c *codec, f *T) {
	if n := uint64(len(*f)); number(c, &n) {
		*f = T(c.next(n))
	} else {
		c.b = append(c.b, *f...)
	}
}

// blob encodes or decodes a text in a byte slice. An empty text is decoded as nil.
func (c *codec) blob(f *[]byte) {
	if n := uint64(len(*f)); !number(c, &n) {
		c.b = append(c.b, *f...)
	} else if b := c.next(n); len(b) > 0 {
		*f = bytes.Clone(b)
	}
}

// raw encodes or decodes bytes of a fixed length.
func (c *codec) raw(b []byte) {
	if c.decoding {
		copy(b, c.next(uint64(len(b))))
	} else {
		c.b = append(c.b, b...)
	}
}

// counters encodes the number of counters and then each. A file with fewer has not counted the others yet.
func (c *codec) counters(all *queue.Counters) {
	values := all.Values()
	n := uint64(len(values))
	number(c, &n)
	values = values[:min(n, uint64(len(values)))]
	for i := range values {
		number(c, &values[i])
	}
	if c.decoding {
		all.Add(values)
	}
}

// next returns the next n bytes to decode, which share memory with the record.
func (c *codec) next(n uint64) []byte {
	if c.bad = c.bad || uint64(len(c.b)) < n; c.bad {
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *codec) err(what string) error {
	if c.bad {
		return fmt.Errorf("%w: a truncated %s record", queue.ErrCorrupt, what)
	}
	return nil
}

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
		c.fields(&text, &l.bucket, &l.window)
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
		c.fields(&l.bucket, &l.window)
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

func (d *deferral) code(c *codec, owner, number *uint64, id *string) {
	c.fields(&d.state)
	c.raw(d.fingerprint[:])
	c.fields(owner, number, &d.at, &d.cost, id)
	if !c.decoding || len(c.b) > 0 { // else the record is older than this field
		c.fields(&d.size)
	}
}

func encodeDeferral(owner, number uint64, id string, d deferral) []byte {
	c := &codec{}
	d.code(c, &owner, &number, &id)
	return c.b
}

func decodeDeferral(b []byte) (owner, number uint64, id string, d deferral, err error) {
	c := decoder(b)
	d.code(c, &owner, &number, &id)
	d.length = uint8(len(id))
	if err = c.err("deferred job"); err == nil &&
		(d.state != stillDeferred && d.state != cancelledDeferral || id == "" || len(id) > names.MaxIDBytes) {
		err = fmt.Errorf("%w: an impossible deferred job", queue.ErrCorrupt)
	}
	return owner, number, id, d, err
}
