package boltq

import "github.com/penstock/penstock/queue"

// counted sums up what was counted.
func counted(parts ...queue.Counters) (sum queue.Counters) {
	for n := range parts {
		sum.Add(parts[n].Values())
	}
	return sum
}

// counters writes how many there are, and then each: a file of fewer has not counted the others yet.
func (w *writer) counters(c *queue.Counters) {
	values := c.Values()
	w.num(uint64(len(values)))
	for _, v := range values {
		w.num(uint64(v))
	}
}

func (r *reader) counters() []int64 {
	values := make([]int64, min(r.num(), uint64(len(queue.CounterTable))))
	for n := range values {
		values[n] = int64(r.num())
	}
	return values
}
