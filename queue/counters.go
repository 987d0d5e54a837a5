package queue

import (
	"reflect"
	"slices"
)

// Counters are what a queue has counted since it was created. The struct is the table of counters, one field per row.
// Tag json is the name in the API, in archives and in Redis. Tag help is the description in the API. Tag jobs says
// whether the counter counts jobs that came in or jobs that left. Counters with the same group are displayed together;
// counters without one count everyday events. Engines do the counting; everything else follows from the table. The
// embedded engine stores the counters in this order, so add new ones at the end. They only grow, except SetAside: a
// withdrawn job is taken off again.
type Counters struct {
	Appended  int64 `json:"appended" jobs:"in" help:"Jobs that came in, those back from the overflow included."`
	Delivered int64 `json:"delivered" jobs:"out" help:"Jobs that ended well."`
	Retried   int64 `json:"retried" help:"Attempts that failed and were scheduled again."`
	Died      int64 `json:"died" jobs:"out" help:"Jobs that became dead."`
	Replayed  int64 `json:"replayed" jobs:"in" help:"Dead jobs that were put back."`
	Cancelled int64 `json:"cancelled" jobs:"out" help:"Jobs that were cancelled."`
	TimedOut  int64 `json:"expired" jobs:"out" help:"Jobs whose expires_at passed while they waited."`
	Refused   int64 `json:"refused" help:"Appends refused for lack of room."`
	Released  int64 `json:"released" group:"irregular" help:"Departures given back unused."`
	Throttled int64 `json:"throttled" group:"irregular" help:"Answers that throttled the queue; they spent no attempt."`
	Down      int64 `json:"down" group:"irregular" help:"Answers of a target that was down; they spent no attempt."`
	Expired   int64 `json:"leases_expired" group:"irregular" help:"Leases that ran out."`
	Lost      int64 `json:"slots_lost" group:"irregular" help:"Departures that the queue missed while jobs waited."`
	SetAside  int64 `json:"set_aside" group:"overflow" jobs:"in" help:"Jobs deferred, unless NATS did not store them."`
	Returned  int64 `json:"returned" group:"overflow" jobs:"out" help:"Jobs that came back from the overflow."`
	Missing   int64 `json:"missing" group:"overflow" jobs:"out" help:"Deferred jobs that the overflow no longer has."`
	Dropped   int64 `json:"dead_dropped" group:"irregular" help:"Dead jobs dropped early to make room."`
}

// Counter is a row of the table.
type Counter struct {
	Name, Help, Group string
	// Jobs is 1 if the counter counts jobs that came in, -1 if jobs that left, else 0.
	Jobs int64
}

// CounterTable has the rows of Counters, in order.
var CounterTable = func() []Counter {
	table := make([]Counter, reflect.TypeFor[Counters]().NumField())
	for n := range table {
		f := reflect.TypeFor[Counters]().Field(n)
		if f.Type.Kind() != reflect.Int64 {
			panic("counter " + f.Name + " is no int64")
		}
		tag := f.Tag
		table[n] = Counter{
			Name: tag.Get("json"), Help: tag.Get("help"), Group: tag.Get("group"),
			Jobs: map[string]int64{"in": 1, "out": -1}[tag.Get("jobs")],
		}
	}
	return table
}()

// row returns a counter, by its row in the table.
func (c *Counters) row(n int) reflect.Value { return reflect.ValueOf(c).Elem().Field(n) }

// Values returns the counters in the order of the table.
func (c *Counters) Values() []int64 {
	values := make([]int64, len(CounterTable))
	for n := range values {
		values[n] = c.row(n).Int()
	}
	return values
}

// Count counts an append by its outcome, if a counter exists for it.
func (c *Counters) Count(o AppendOutcome) {
	if n := countedAt[o]; n >= 0 {
		row := c.row(n)
		row.SetInt(row.Int() + 1)
	}
}

// countedAt is the row that counts each outcome, or -1.
var countedAt = func() (at [len(outcomes)]int) {
	for o := range at {
		at[o] = slices.IndexFunc(CounterTable, func(c Counter) bool { return c.Name == AppendOutcome(o).Counter() })
	}
	return at
}()

// Add adds values to the counters, in the order of the table.
func (c *Counters) Add(values []int64) {
	for n, by := range values {
		row := c.row(n)
		row.SetInt(row.Int() + by)
	}
}

// Balance returns how many jobs the queue and its overflow should hold according to the counters.
func (c *Counters) Balance() (jobs int64) {
	for n := range CounterTable {
		jobs += CounterTable[n].Jobs * c.row(n).Int()
	}
	return jobs
}

// Departures returns how many departures have ended, including released ones.
func (c *Counters) Departures() int64 {
	return c.Delivered + c.Retried + c.Died + c.Released + c.Throttled + c.Down + c.Expired
}
