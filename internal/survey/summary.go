package survey

import (
	"time"

	"github.com/penstock/penstock/queue/status"
)

// Summary holds totals of queues.
type Summary struct {
	States                         map[status.Code]int
	Full                           int
	Size, Capacity, Deferred, Dead int64
	Rates                          Rates
	Outflow                        float64
	// Finish is when the last job of all queues leaves that do leave, Never how many queues have jobs that never leave,
	// and Delay the longest delay of a queue with jobs.
	Finish time.Time
	Never  int
	Delay  time.Duration
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
		sum.addOutlook(r.Outlook)
	}
	return sum
}

func (sum *Summary) addOutlook(o *Outlook) {
	if o == nil || o.Bends[0].Remaining == 0 {
		return
	}
	if o.Never() {
		sum.Never++
	}
	if o.Finish.After(sum.Finish) {
		sum.Finish = o.Finish
	}
	delay, _ := o.Delay()
	sum.Delay = max(sum.Delay, delay)
}
