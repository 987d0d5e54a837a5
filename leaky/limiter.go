package leaky

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Bounds of the numbers of limiters. Together with the bounds of a Rate they keep every product of integers below
// 2^53, so that Lua, which only has doubles, computes the same.
const (
	MaxLimit   = 1_000_000_000 // maximum count of a limiter
	MinPeriod  = time.Millisecond
	MaxPeriod  = 366 * 24 * time.Hour
	MaxEntries = 10_000 // maximum number of entries or places of a state
	MaxLease   = 64     // maximum length of the name of a place
)

// Errors about limiters.
var (
	ErrLimit = errors.New("invalid limit")  // wrapped by errors about unusable numbers
	ErrNever = errors.New("can never pass") // wrapped by errors about a cost above the limit
	ErrAsk   = errors.New("invalid ask")    // wrapped by errors about an invalid Ask
	// wrapped by errors of Restore about bytes that AppendBinary did not write
	ErrState = errors.New("not a state of this limiter")
)

// Algorithm is the name of a limiter's algorithm.
type Algorithm string

// Limiter decides about work as it comes: it allows or refuses it. Unlike a Pacer it delays no work. Limiters are
// comparable values. A Limiter that fails Validate must not be used.
type Limiter interface {
	Algorithm() Algorithm
	// Validate returns an error that wraps ErrLimit and names the field, its value and its bounds.
	Validate() error
	// Limit returns the highest cost that passes at once on an unused key. A higher cost can never pass: see CheckAsk.
	Limit() int64
	// Most returns the most cost that can pass in any span of w, both ends included, if nothing is given back. It
	// returns -1 if there is no bound.
	Most(w time.Duration) int64
	// Fresh returns the state of an unused key.
	Fresh() Tally
	// Restore returns the Tally that wrote b with AppendBinary. The limiter that wrote it may have had other numbers:
	// what was taken stays taken as far as the numbers of this limiter allow. Its error wraps ErrState.
	Restore(b []byte) (Tally, error)
}

// Tally is the state of one key under a Limiter, including the limiter's numbers. It is not safe for concurrent use.
//
// Instants should not run back. If they do, or if a state was planted, everything ahead of now counts as taken now: no
// state blocks a key for longer than one that was used up now. Only the debt of an Allowance does, for at most
// MaxBurstSpan.
type Tally interface {
	// Take decides, and counts an allowed cost. A refusal costs nothing. It refuses everything that CheckAsk refuses,
	// with a RetryAfter of 0, except renewals of a Concurrency place.
	Take(now Instant, a Ask) Decision
	// Peek answers as Take would, without changing anything; Remaining is what would be left. With Concurrency it
	// needs no Lease and then asks for a new place.
	Peek(now Instant, a Ask) Decision
	// Refund gives back unused takes, the latest first, but never more than was taken. It answers as a Peek of cost 1
	// afterwards.
	Refund(now Instant, a Ask) Decision
	// Expires returns when the state equals that of an unused key and may be forgotten, if nothing else is taken; now
	// if it already does.
	Expires(now Instant) Instant
	// Clone returns an independent copy.
	Clone() Tally
	// AppendBinary implements encoding.BinaryAppender. Its error is always nil.
	AppendBinary(b []byte) ([]byte, error)
}

// Ask is a request to a limiter.
type Ask struct {
	Cost int64 // 0 means 1
	// Lease identifies the place to take, renew or free, in 1 to MaxLease bytes. Concurrency requires it and keeps the
	// string. Other limiters ignore it, so that one Ask can go to several limiters.
	Lease string
}

func (a Ask) cost() int64 {
	if a.Cost == 0 {
		return 1
	}
	return a.Cost
}

// CheckAsk returns nil, or why a is invalid: the error wraps ErrNever if the cost is above the limit, else ErrAsk. For
// Concurrency it checks a request for a new place: holders may renew and give back their places at any cost.
func CheckAsk(l Limiter, a Ask) error {
	if a.Cost < 0 {
		return fmt.Errorf("%w: cost %d: must be at least 1", ErrAsk, a.Cost)
	}
	if cost, limit := a.cost(), l.Limit(); cost > limit {
		return fmt.Errorf("cost %d %w: the limit is %d", cost, ErrNever, limit)
	}
	if l.Algorithm() == AlgorithmConcurrency && !validLease(a.Lease) {
		return fmt.Errorf(
			"%w: lease %q: concurrency needs the name of a place with 1 to %d bytes", ErrAsk, shortened(a.Lease),
			MaxLease,
		)
	}
	return nil
}

func validLease(name string) bool { return name != "" && len(name) <= MaxLease }

func shortened(s string) string {
	if len(s) > MaxLease {
		return s[:MaxLease] + "..."
	}
	return s
}

// Decision is the answer of a limiter.
type Decision struct {
	Allowed   bool
	Limit     int64 // as Limiter.Limit
	Remaining int64 // cost that would still pass right now
	// when refused: time until the same cost would pass if nothing else is taken; 0 if allowed, or if it can never
	// pass
	RetryAfter time.Duration
	ResetAfter time.Duration // time until the key is as if unused
}

// far is more than can ever pass.
const far = 1 << 61

// mulDiv returns a x b / c rounded down, or far.
func mulDiv(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high >= uint64(c) {
		return far
	}
	q, _ := bits.Div64(high, low, uint64(c))
	return int64(min(q, far))
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func checkMax(field string, v, most int64) error {
	if v < 1 || v > most {
		return fmt.Errorf("%w: %s %d: must be from 1 to %d", ErrLimit, field, v, most)
	}
	return nil
}

func checkPeriod(field string, d, least, most time.Duration) error {
	if d < least || d > most || d%time.Microsecond != 0 {
		return fmt.Errorf("%w: %s %v: must be whole microseconds from %v to %v", ErrLimit, field, d, least, most)
	}
	return nil
}

// stateReader reads a state: a letter that identifies the arithmetic, and varints. After the first fault it is bad and
// returns zeros.
type stateReader struct {
	b   []byte
	bad bool
}

func readState(b []byte, letter byte) *stateReader {
	if len(b) == 0 || b[0] != letter {
		return &stateReader{bad: true}
	}
	return &stateReader{b: b[1:]}
}

// number reads a number from least to most.
func (r *stateReader) number(least, most int64) int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 || v < least || v > most {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// instant reads an instant that fits a double and whose sums cannot overflow.
func (r *stateReader) instant() Instant { return Instant(r.number(-1<<53, 1<<53)) }

func (r *stateReader) text(least, most int64) string {
	n := r.number(least, most)
	if n > int64(len(r.b)) {
		r.b, r.bad = nil, true
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// end returns t if everything was read without a fault.
func (r *stateReader) end(l Limiter, t Tally) (Tally, error) {
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrState, l.Algorithm())
	}
	return t, nil
}
