package survey

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/status"
)

// Query says which queues of a Snapshot are wanted, and in which order.
type Query struct {
	// Sort is one of SortKeys; Descending has the highest first. Of those alike, and without it, names decide.
	Sort       string
	Descending bool
	// States are those that are wanted; none is all.
	States []status.Code
	// Full wants those that have no room.
	Full bool
	// Text is in the name.
	Text string
	// Visible reports whether a name may be seen; nil is all.
	Visible       func(name string) bool
	Offset, Limit int
}

// sortKey is a row of the table of what queues can be sorted by. Name stands for all that are compared otherwise.
type sortKey struct {
	name, help string
	value      func(*Row) float64
}

var sortKeys = []sortKey{
	{"name", "its name", func(*Row) float64 { return 0 }},
	{"fill", "how full it is, by jobs or bytes", (*Row).Fill},
	{"size", "the jobs that hold a place", func(r *Row) float64 { return float64(r.Size) }},
	{"in", "jobs a second that come in", func(r *Row) float64 { return r.Rates.In }},
	{"out", "jobs a second that are delivered", func(r *Row) float64 { return r.Rates.Out }},
	{"refused", "jobs a second that are turned away", func(r *Row) float64 { return r.Rates.Refused }},
	{"oldest", "how long the job at the head has waited", func(r *Row) float64 {
		if r.Info.OldestWaiting.IsZero() {
			return 0
		}
		return r.Info.Now.Sub(r.Info.OldestWaiting).Seconds()
	}},
	{"outflow", "departures a second", func(r *Row) float64 { return r.Outflow }},
	{"rate", "the rate at which it sends; the highest is none", func(r *Row) float64 { return perSecond(r.Rate) }},
	{"deferred", "jobs on the overflow", func(r *Row) float64 { return float64(r.Deferred) }},
	{"dead", "dead jobs", func(r *Row) float64 { return float64(r.Info.Dead) }},
	{"state", "its status.code, the first of the list being the highest", func(r *Row) float64 {
		return -float64(slices.Index(status.Codes(), r.Status.Code))
	}},
}

func perSecond(r leaky.Rate) float64 {
	if r.Unlimited() {
		return leaky.MaxPerSecond + 1
	}
	return r.PerSecond()
}

// SortKeys are what queues can be sorted by, and what each is.
func SortKeys() (names, help []string) {
	for _, k := range sortKeys {
		names, help = append(names, k.name), append(help, k.help)
	}
	return names, help
}

// Select returns a page of the queues that a Query is for, and how many there are in all.
func (s *Snapshot) Select(q Query) (page []*Row, total int) {
	found := make([]*Row, 0, len(s.rows))
	for _, r := range s.rows {
		if q.matches(r) {
			found = append(found, r)
		}
	}
	q.order(found)
	from := min(q.Offset, len(found))
	return found[from:min(from+q.Limit, len(found))], len(found)
}

func (q *Query) matches(r *Row) bool {
	return (q.Visible == nil || q.Visible(r.Name)) && (!q.Full || r.Status.Full || r.full()) &&
		(len(q.States) == 0 || slices.Contains(q.States, r.Status.Code)) && strings.Contains(r.Name, q.Text)
}

// order sorts queues, which are by name.
func (q *Query) order(found []*Row) {
	at := slices.IndexFunc(sortKeys, func(k sortKey) bool { return k.name == q.Sort })
	if at <= 0 {
		if q.Descending {
			slices.Reverse(found)
		}
		return
	}
	type keyed struct {
		row *Row
		key float64
	}
	all := make([]keyed, len(found))
	for n, r := range found {
		all[n] = keyed{r, sortKeys[at].value(r)}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if q.Descending {
			return cmp.Compare(b.key, a.key)
		}
		return cmp.Compare(a.key, b.key)
	})
	for n := range all {
		found[n] = all[n].row
	}
}
