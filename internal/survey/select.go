package survey

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/status"
)

// Query selects and sorts queues of a Snapshot.
type Query struct {
	// Sort is one of SortKeys; the default is the name. Names break ties.
	Sort       string
	Descending bool
	// States selects queues in these states; empty selects all states.
	States []status.Code
	// Full selects only full queues.
	Full bool
	// Text selects names that contain it.
	Text string
	// Visible reports whether the caller may see a name; nil shows all.
	Visible       func(name string) bool
	Offset, Limit int
}

// sortKey is a row of the table of sort keys.
type sortKey struct {
	name, help string
	value      func(*Row) float64
}

var sortKeys = []sortKey{
	{"name", "name", func(*Row) float64 { return 0 }},
	{"fill", "how full the queue is, by jobs or bytes", (*Row).Fill},
	{"size", "jobs in the queue", func(r *Row) float64 { return float64(r.Size) }},
	{"in", "jobs added per second", func(r *Row) float64 { return r.Rates.In }},
	{"out", "jobs delivered per second", func(r *Row) float64 { return r.Rates.Out }},
	{"refused", "jobs refused per second", func(r *Row) float64 { return r.Rates.Refused }},
	{"oldest", "time that the job at the head has waited", func(r *Row) float64 {
		if r.Info.OldestWaiting.IsZero() {
			return 0
		}
		return r.Info.Now.Sub(r.Info.OldestWaiting).Seconds()
	}},
	{"outflow", "departures per second", func(r *Row) float64 { return r.Outflow }},
	{"rate", "rate in effect; unlimited is the highest", func(r *Row) float64 { return perSecond(r.Rate) }},
	{"deferred", "jobs on the overflow", func(r *Row) float64 { return float64(r.Deferred) }},
	{"dead", "dead jobs", func(r *Row) float64 { return float64(r.Info.Dead) }},
	{"state", "status.code; the first of the list is the highest", func(r *Row) float64 {
		return -float64(slices.Index(status.Codes(), r.Status.Code))
	}},
}

func perSecond(r leaky.Rate) float64 {
	if r.Unlimited() {
		return leaky.MaxPerSecond + 1
	}
	return r.PerSecond()
}

// SortKeys returns the keys by which queues can be sorted, and their meanings.
func SortKeys() (names, help []string) {
	for _, k := range sortKeys {
		names, help = append(names, k.name), append(help, k.help)
	}
	return names, help
}

// Select returns the requested page of matching queues, and the number of all matching queues.
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

// order sorts queues that are already sorted by name.
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
