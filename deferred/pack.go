package deferred

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// A message on the overflow is many jobs of one queue, whose name is in its subject.
// Its header Penstock-Format is 1, and its body, for each job,
//
//	id      uvarint length and text
//	ticket  uvarint length and text
//	at      uvarint, microseconds since 1970
//	record  uvarint length and bytes, as jobrecord.Pack has it
//
// with nothing between or behind. What a job says about overflow is not carried: it
// has been heeded.
const (
	formatHeader = "Penstock-Format"
	format       = "1"

	maxJobs  = 64        // in a message that is written
	maxBytes = 256 << 10 // of one with more than one job
	headroom = 4 << 10   // for the headers of a message, and of a dead letter

	// stride is how far apart the Orders of two messages are: more than any message has
	// jobs. A stream's sequence can grow to 2^43 before an Order exceeds what Lua counts
	// exactly.
	stride = 1024
)

// Item is a job to be put on the overflow. The job is normalized and valid.
type Item struct {
	queue.Job
	Ticket queue.Ticket
	At     time.Time
}

// pack returns an item's part of a message.
func pack(i *Item) []byte {
	record := jobrecord.Pack(&i.Job)
	b := make([]byte, 0, len(i.ID)+len(i.Ticket)+len(record)+4*binary.MaxVarintLen64)
	b = appendText(b, i.ID)
	b = appendText(b, string(i.Ticket))
	b = binary.AppendUvarint(b, uint64(i.At.UnixMicro()))
	b = binary.AppendUvarint(b, uint64(len(record)))
	return append(b, record...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// errNotOurs is a message that Penstock did not write.
var errNotOurs = errors.New("not a message of Penstock's")

// latest is the last instant that a job may carry: the year 2200.
var latest = uint64(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())

// unpack reads a message's body. It takes only what pack can have written, all of it or
// nothing; the payloads share memory with the body. The errors wrap errNotOurs.
func unpack(name string, body []byte) ([]Item, error) {
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

// valid checks what the framing does not: a job that no producer could hand in must
// not get into a queue this way either.
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
		return errors.New("its fingerprint is another job's")
	}
	return nil
}

// reader takes a body apart; after the first fault it yields nothing.
type reader struct {
	b   []byte
	bad bool
}

// uvarint takes only the shortest way to write a number, so that a message has one
// form.
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
