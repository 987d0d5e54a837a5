package survey

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// Snapshot is all queues at one reading. It does not change.
type Snapshot struct {
	At   time.Time
	rows []*Row // by name
	next chan struct{}
}

// Row is a queue in a Snapshot. It does not change, and must not be changed.
type Row struct {
	queue.Reading
	// Info is the queue as it was last read whole: one that has jobs a few seconds ago at most, if not more than a
	// thousand have, an idle one a minute ago.
	Info   *queue.Info
	Status status.Status // at that time
	// Rates are what it did a second, over the last 5 to 10 s.
	Rates Rates

	infoAt time.Time
}

// Rates are what a queue does, a second.
type Rates struct{ In, Out, Refused, Released float64 }

// Len is how many queues there are.
func (s *Snapshot) Len() int { return len(s.rows) }

// Rows are the queues by name. They must not be changed.
func (s *Snapshot) Rows() []*Row { return s.rows }

// Row returns a queue, nil if there is none of the name.
func (s *Snapshot) Row(name string) *Row {
	n, found := slices.BinarySearchFunc(s.rows, name, func(r *Row, name string) int {
		return strings.Compare(r.Name, name)
	})
	if !found {
		return nil
	}
	return s.rows[n]
}

// Next is closed when there is a later one.
func (s *Snapshot) Next() <-chan struct{} { return s.next }

// Fill is how full the queue is, by its jobs or by its bytes, whichever is more: 1 is full.
func (r *Row) Fill() float64 {
	fill := 0.0
	if c := r.Info.Spec.Capacity; c > 0 {
		fill = float64(r.Size) / float64(c)
	}
	if m := r.Info.MaxBytes; m > 0 && m < queue.AnyBytes {
		fill = max(fill, float64(r.Bytes)/float64(m))
	}
	return fill
}

// full reports whether the queue has no place left, by its latest reading.
func (r *Row) full() bool { return r.Size >= r.Info.Spec.Capacity }

// alike reports whether two rows of a queue show the same but the time.
func (r *Row) alike(other *Row) bool {
	now := other.Reading
	now.Now = r.Now
	return r.Reading == now && r.Rates == other.Rates
}

// came and left are what the rates of a queue are of.
func came(c *queue.Counters) int64 { return c.Appended + c.Replayed }
func left(c *queue.Counters) int64 { return c.Delivered }
