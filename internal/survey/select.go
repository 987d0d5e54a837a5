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

// sortKey is a key by which queues can be sorted. Larger values are higher.
type sortKey struct {
	name  string
	value func(*Row) float64
}

var sortKeys = []sortKey{
	{"name", func(*Row) float64 { return 0 }}, // the order of a Snapshot
	{"fill", (*Row).Fill},
	{"size", func(r *Row) float64 { return float64(r.Size) }},
	{"in", func(r *Row) float64 { return r.Rates.In }},
	{"out", func(r *Row) float64 { return r.Rates.Out }},
	{"refused", func(r *Row) float64 { return r.Rates.Refused }},
	{"oldest", func(r *Row) float64 {
		if r.Info.OldestWaiting.IsZero() {
			return 0
		}
		return r.Info.Now.Sub(r.Info.OldestWaiting).Seconds()
	}},
	{"delay", func(r *Row) float64 { return r.Outlook.seconds((*Outlook).nextAt) }},
	{"finish", func(r *Row) float64 { return r.Outlook.seconds((*Outlook).finishAt) }},
	{"outflow", func(r *Row) float64 { return r.Outflow }},
	{"rate", func(r *Row) float64 { return perSecond(r.Rate) }},
	{"deferred", func(r *Row) float64 { return float64(r.Deferred) }},
	{"dead", func(r *Row) float64 { return float64(r.Info.Dead) }},
	{"state", func(r *Row) float64 { return -float64(slices.Index(status.Codes(), r.Status.Code)) }},
}

func perSecond(r leaky.Rate) float64 {
	if r.Unlimited() {
		return leaky.MaxPerSecond + 1
	}
	return r.PerSecond()
}

// SortKeys returns the keys by which queues can be sorted.
func SortKeys() []string {
	names := make([]string, len(sortKeys))
	for i := range sortKeys {
		names[i] = sortKeys[i].name
	}
	return names
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
