package proxy

import "sync"

// Counts are the calls to one queue in this process.
type Counts struct {
	Waiting int64 // for their turns
	Active  int64 // sent, and their answers have not ended
}

// counts are the Counts of all queues with calls.
type counts struct {
	mu sync.Mutex
	of map[string]Counts
}

// get returns the counts of a queue.
func (c *counts) get(queue string) Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[queue]
}

// add adds to the counts of a queue. A queue without calls takes no memory.
func (c *counts) add(queue string, change Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]Counts{}
	}
	n := c.of[queue]
	n.Waiting += change.Waiting
	n.Active += change.Active
	if n == (Counts{}) {
		delete(c.of, queue)
		return
	}
	c.of[queue] = n
}

// Calls returns how many calls to a queue wait and are active in this process. Other processes may have more.
func (p *Proxy) Calls(queue string) Counts { return p.counts.get(queue) }

func (p *Proxy) waits(queue string, change int) {
	p.waiting.Add(int64(change))
	p.counts.add(queue, Counts{Waiting: int64(change)})
	p.o.Observer.Waits(change)
}

func (p *Proxy) runs(queue string, change int) {
	p.counts.add(queue, Counts{Active: int64(change)})
	p.o.Observer.Runs(change)
}
