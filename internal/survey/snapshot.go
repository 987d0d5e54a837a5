package survey

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// Snapshot holds all queues at one reading. It is immutable.
type Snapshot struct {
	At   time.Time
	rows []*Row // by name
	next chan struct{}
}

// Row is a queue in a Snapshot. It must not be changed.
type Row struct {
	queue.Reading
	// Info is the last complete reading of the queue. It is at most a few seconds old if the queue has jobs and at most a
	// thousand queues do, and at most a minute old if the queue is idle.
	Info   *queue.Info
	Status status.Status // as of Info
	Rates  Rates         // over the last 5 to 10 s
	// Outlook is the latest forecast of the queue, or nil. Queues whose lanes or group matter take turns: their outlook
	// may be minutes old if there are many of them.
	Outlook *Outlook

	infoAt time.Time
}

// Rates are numbers of jobs, or of lost departures, per second.
type Rates struct{ In, Out, Refused, Released, Lost float64 }

// Len returns the number of queues.
func (s *Snapshot) Len() int { return len(s.rows) }

// Rows returns the queues, sorted by name. They must not be changed.
func (s *Snapshot) Rows() []*Row { return s.rows }

// Row returns the named queue, or nil if it does not exist.
func (s *Snapshot) Row(name string) *Row {
	n, found := slices.BinarySearchFunc(s.rows, name, func(r *Row, name string) int {
		return strings.Compare(r.Name, name)
	})
	if !found {
		return nil
	}
	return s.rows[n]
}

// Next returns a channel that is closed when there is a newer snapshot.
func (s *Snapshot) Next() <-chan struct{} { return s.next }

// Fill returns how full the queue is, by jobs or bytes, whichever is more. 1 is full.
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

// full reports whether the latest reading shows no room.
func (r *Row) full() bool { return r.Size >= r.Info.Spec.Capacity }

// alike reports whether two rows of a queue differ only in time.
func (r *Row) alike(other *Row) bool {
	now := other.Reading
	now.Now = r.Now
	return r.Reading == now && r.Rates == other.Rates
}

// came and left return the counts behind the rates In and Out.
func came(c *queue.Counters) int64 { return c.Appended + c.Replayed }
func left(c *queue.Counters) int64 { return c.Delivered }
