package leaky

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Bounds of the numbers of limiters. With those of a Rate they keep every product of integers below 2^53, so that
// Lua computes the same exactly, where all numbers are doubles.
const (
	MaxLimit   = 1_000_000_000 // the most that a limiter counts up to
	MinPeriod  = time.Millisecond
	MaxPeriod  = 366 * 24 * time.Hour
	MaxEntries = 10_000 // the most entries, or places, that one state has
	MaxLease   = 64     // the most bytes of the name of a place
)

// Errors about limiters.
var (
	ErrLimit = errors.New("invalid limit")  // wrapped by errors about numbers that cannot be used
	ErrNever = errors.New("can never pass") // wrapped by errors about a cost above the limit
	ErrAsk   = errors.New("invalid ask")    // wrapped by errors about an invalid Ask
	// wrapped by errors of Restore about bytes that AppendBinary did not write
	ErrState = errors.New("no state of this limiter")
)

// Algorithm is the name of a limiter's algorithm.
type Algorithm string

// Limiter is a rule by which work is let through or refused as it comes. Unlike a Pacer it makes nobody wait. It is
// a comparable value. A Limiter that Validate refuses must not be used.
type Limiter interface {
	Algorithm() Algorithm
	// Validate wraps ErrLimit, and names the field, its value and its bounds.
	Validate() error
	// Limit is the most cost that passes at once when nothing has been taken. What costs more can never pass: see
	// CheckAsk.
	Limit() int64
	// Most is the law of it: the most cost that passes in any span of w, both ends included, whatever was taken before
	// and as long as nothing is given back. Of what has no bound it is -1.
	Most(w time.Duration) int64
	// Fresh returns the state of a key from which nothing was ever taken.
	Fresh() Tally
	// Restore returns the Tally that wrote b with AppendBinary, or one of the same algorithm with other numbers:
	// what was taken stays taken as far as the numbers of this limiter allow. Its error wraps ErrState.
	Restore(b []byte) (Tally, error)
}

// Tally is the state of one key under a Limiter, whose numbers it knows. It is not safe for concurrent use.
//
// Instants should not run back. Where they do, or a state was planted, what lies ahead of now is taken as of now:
// no state blocks a key for longer than one that was used up at this instant.
type Tally interface {
	// Take decides, and counts what it allows. A refusal costs nothing. What CheckAsk refuses is refused with a
	// RetryAfter of 0, except the renewal of a place of Concurrency.
	Take(now Instant, a Ask) Decision
	// Peek answers what Take would, and changes nothing: its Remaining is what would be left. For Concurrency it
	// needs no Lease, and then asks for a new place.
	Peek(now Instant, a Ask) Decision
	// Refund gives back what was taken and not used, the latest first, down to nothing taken. It answers what a
	// Peek of cost 1 then would.
	Refund(now Instant, a Ask) Decision
	// Expires returns from when on, if nothing else is taken, the state is that of a fresh key and may be
	// forgotten; now if it is already.
	Expires(now Instant) Instant
	// Clone returns an independent copy.
	Clone() Tally
	// AppendBinary is encoding.BinaryAppender. Its error is always nil.
	AppendBinary(b []byte) ([]byte, error)
}

// Ask is one question to a limiter.
type Ask struct {
	Cost int64 // 0 means 1
	// Lease names the place that is taken, renewed or freed, in 1 to MaxLease bytes. Concurrency needs it and keeps
	// the string; the others ignore it, so that one Ask can go to several limiters.
	Lease string
}

func (a Ask) cost() int64 {
	if a.Cost == 0 {
		return 1
	}
	return a.Cost
}

// CheckAsk reports why l must not be asked a: an error that wraps ErrNever if the cost is above the limit, else
// ErrAsk. For Concurrency it is about a new place: a holder renews and gives back its place at any cost.
func CheckAsk(l Limiter, a Ask) error {
	if a.Cost < 0 {
		return fmt.Errorf("%w: cost %d: must be at least 1", ErrAsk, a.Cost)
	}
	if cost, limit := a.cost(), l.Limit(); cost > limit {
		return fmt.Errorf("cost %d %w: the limit is %d", cost, ErrNever, limit)
	}
	if l.Algorithm() == AlgorithmConcurrency && !validLease(a.Lease) {
		return fmt.Errorf(
			"%w: lease %q: concurrency needs the name of a place, of 1 to %d bytes", ErrAsk, shortened(a.Lease),
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

// Decision is what a limiter answers.
type Decision struct {
	Allowed   bool
	Limit     int64 // the most cost that passes at once when nothing has been taken
	Remaining int64 // how much cost would pass right now, after this
	// of a refusal: until the same cost would pass if nobody else takes any; 0 when allowed, and for what can never
	// pass
	RetryAfter time.Duration
	ResetAfter time.Duration // until it is as if nothing had ever been taken
}

// Cell returns the five numbers with which redis-cell answers CL.THROTTLE: limited (0 or 1), limit, remaining, and the
// seconds, rounded up, until the same cost would pass (-1 if it did, or never will) and until nothing is owed.
func (d Decision) Cell() [5]int64 {
	c := [5]int64{0, d.Limit, d.Remaining, -1, ceilSeconds(d.ResetAfter)}
	if !d.Allowed {
		c[0] = 1
		if d.RetryAfter > 0 {
			c[3] = ceilSeconds(d.RetryAfter)
		}
	}
	return c
}

func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// far is more than ever passes.
const far = 1 << 61

// mulDiv is a x b / c rounded down, or far.
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

// stateReader reads a state: a letter that no other arithmetic has, and numbers as varints. The first fault makes it
// bad, and all that follows 0.
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

// instant reads an instant that a double holds and of which no sum overflows.
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

// end returns t if all was read without a fault.
func (r *stateReader) end(l Limiter, t Tally) (Tally, error) {
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrState, l.Algorithm())
	}
	return t, nil
}
