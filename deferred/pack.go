package deferred

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/pack"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// A message on the overflow has many jobs of one queue, which its subject names. Its header Penstock-Format is 1. Its
// body has for each job
//
//	id      uvarint length and text
//	ticket  uvarint length and text
//	at      uvarint, microseconds since 1970
//	record  uvarint length and bytes, as jobrecord.Pack has it
//
// with nothing in between or after. What a job says about overflow is left out: it has been applied.
const (
	formatHeader = "Penstock-Format"
	format       = "1"

	maxJobs  = 64        // in a message when writing
	maxBytes = 256 << 10 // of a message with several jobs
	headroom = 4 << 10   // for the headers of a message, and of a dead letter

	// stride is the distance between the Orders of two messages, more than any message has jobs. A stream's sequence
	// can grow to 2^43 before an Order exceeds the integers that Lua represents exactly.
	stride = 1024
)

// Item is a normalized, valid job to put on the overflow.
type Item struct {
	queue.Job
	Ticket queue.Ticket
	At     time.Time
}

// encode encodes an item for a message.
func encode(i *Item) []byte {
	record := jobrecord.Pack(&i.Job)
	b := make([]byte, 0, len(i.ID)+len(i.Ticket)+len(record)+4*binary.MaxVarintLen64)
	b = pack.AppendText(b, i.ID)
	b = pack.AppendText(b, string(i.Ticket))
	b = binary.AppendUvarint(b, uint64(i.At.UnixMicro()))
	b = binary.AppendUvarint(b, uint64(len(record)))
	return append(b, record...)
}

// errNotOurs marks a message that Penstock did not write.
var errNotOurs = errors.New("not a message of Penstock's")

// latest is the last instant that a job may have: the year 2200.
var latest = uint64(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())

// decode decodes a message's body. It accepts only what encode can have written, completely or not at all. The payloads
// share memory with the body. Its errors wrap errNotOurs.
func decode(name string, body []byte) ([]Item, error) {
	var items []Item
	r := reader{b: body}
	for len(r.b) > 0 && !r.bad {
		if len(items) == stride {
			return nil, fmt.Errorf("%w: more than %d jobs", errNotOurs, stride)
		}
		i := Item{Job: queue.Job{Queue: name}}
		i.ID = string(r.bytes(names.MaxIDBytes))
		i.Ticket = queue.Ticket(r.bytes(queue.MaxTicketBytes))
		at := r.uvarint(latest)
		record := r.bytes(largestMessage)
		if r.bad || at == 0 {
			break
		}
		i.At = time.UnixMicro(int64(at)).UTC()
		if err := jobrecord.Unpack(record, &i.Job); err != nil {
			return nil, fmt.Errorf("%w: job %d: %w", errNotOurs, len(items)+1, err)
		}
		if err := valid(&i, record); err != nil {
			return nil, fmt.Errorf("%w: job %d: %w", errNotOurs, len(items)+1, err)
		}
		items = append(items, i)
	}
	if len(r.b) > 0 || r.bad || len(items) == 0 {
		return nil, fmt.Errorf("%w: job %d is cut short or damaged", errNotOurs, len(items)+1)
	}
	return items, nil
}

// valid checks what the framing does not: a job that no producer could append must not get into a queue this way,
// either.
func valid(i *Item, record []byte) error {
	for _, c := range []byte(i.Ticket) {
		if c <= ' ' || c > '~' {
			return errors.New("its ticket is not visible ASCII")
		}
	}
	if err := i.Validate(); err != nil {
		return err
	}
	if i.Fingerprint() != binary.BigEndian.Uint64(record[jobrecord.FingerprintAt:]) {
		return errors.New("its fingerprint belongs to another job")
	}
	return nil
}

// reader decodes a body. After the first fault it returns nothing.
type reader struct {
	b   []byte
	bad bool
}

// uvarint accepts only the shortest encoding of a number, so that a message has exactly one encoding.
func (r *reader) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || v > limit || n > 1 && r.b[n-1] == 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(limit uint64) []byte {
	n := r.uvarint(limit)
	if r.bad || uint64(len(r.b)) < n {
		r.bad = true
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}
