package drain

import (
	"container/heap"
	"sync"
	"time"
)

// clock is a set of timers that are more precise than the runtime's on Linux, which round the time left up to a
// millisecond: a whole interval at 1,000 departures a second. A nil clock never rings; every wait has a plain timer
// as well.
type clock struct {
	mu    sync.Mutex
	bells bells
	alarm alarm
	ended chan struct{}
}

// alarm is one timer of the operating system.
type alarm interface {
	set(d time.Duration) error
	wait() error // until it goes off or is closed
	close() error
}

// newClock returns nil if the system has no better alarm than the runtime's timers.
func newClock() *clock {
	a, err := newAlarm()
	if err != nil {
		return nil
	}
	return &clock{alarm: a, ended: make(chan struct{})}
}

// after returns a channel that receives once when d has passed.
func (c *clock) after(d time.Duration) <-chan struct{} {
	if c == nil {
		return nil
	}
	b := bell{at: time.Now().Add(d), ring: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	heap.Push(&c.bells, b)
	if c.bells[0].ring == b.ring {
		_ = c.alarm.set(d) // if it fails, the plain timers remain
	}
	return b.ring
}

// run rings until close.
func (c *clock) run() {
	defer close(c.ended)
	for c.alarm.wait() == nil {
		c.mu.Lock()
		now := time.Now()
		for len(c.bells) > 0 && !c.bells[0].at.After(now) {
			heap.Pop(&c.bells).(bell).ring <- struct{}{}
		}
		if len(c.bells) > 0 {
			_ = c.alarm.set(c.bells[0].at.Sub(now))
		}
		c.mu.Unlock()
	}
}

// close ends run and waits until it has returned.
func (c *clock) close() {
	if c != nil {
		_ = c.alarm.close()
		<-c.ended
	}
}

type bell struct {
	at   time.Time
	ring chan struct{}
}

type bells []bell

func (b bells) Len() int           { return len(b) }
func (b bells) Less(i, j int) bool { return b[i].at.Before(b[j].at) }
func (b bells) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *bells) Push(x any)        { *b = append(*b, x.(bell)) }
func (b *bells) Pop() any {
	old := *b
	last := old[len(old)-1]
	old[len(old)-1] = bell{}
	*b = old[:len(old)-1]
	return last
}
