package survey

import "github.com/penstock/penstock/queue/status"

// Summary holds totals of queues.
type Summary struct {
	States                         map[status.Code]int
	Full                           int
	Size, Capacity, Deferred, Dead int64
	Rates                          Rates
	Outflow                        float64
}

// Summary sums up the queues that match a Query, whatever their states.
func (s *Snapshot) Summary(q Query) Summary {
	q.States, q.Full = nil, false
	sum := Summary{States: map[status.Code]int{}}
	for _, r := range s.rows {
		if !q.matches(r) {
			continue
		}
		sum.States[r.Status.Code]++
		if r.Status.Full || r.full() {
			sum.Full++
		}
		sum.Size += r.Size
		sum.Capacity += r.Info.Spec.Capacity
		sum.Deferred += r.Deferred
		sum.Dead += r.Info.Dead
		sum.Rates.In += r.Rates.In
		sum.Rates.Out += r.Rates.Out
		sum.Rates.Refused += r.Rates.Refused
		sum.Outflow += r.Outflow
	}
	return sum
}
