package redisq

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/queue"
)

// counterTable is what scripts know of queue.CounterTable: the fields of a queue's hash, and whether each counts jobs
// that came in or that ended.
var counterTable = func() string {
	var names, jobs strings.Builder
	for _, c := range queue.CounterTable {
		fmt.Fprintf(&names, "'%s', ", c.Name)
		fmt.Fprintf(&jobs, "%d, ", c.Jobs)
	}
	return "local COUNTERS = { " + names.String() + "}\nlocal COUNTS_JOBS = { " + jobs.String() + "}"
}()
