package machine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
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
			number(c, &f.TAT)
			number(c, &f.Last)
			number(c, &f.LastCost)
		case *leaky.Window:
			number(c, &f.Ends)
			if packed := min(f.Used, mostPackedUsed) | f.Step<<stepShift; number(c, &packed) {
				f.Used, f.Step = packed&mostPackedUsed, packed>>stepShift
			}
		case *queue.Counters:
			c.counters(f)
		default:
			panic("machine: a field without an encoding")
		}
	}
}

// A window's step of a ramp is above what is used, so that records without ramps stay as they were.
const stepShift, mostPackedUsed = 41, 1<<stepShift - 1

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
