// Package attend makes tests look attended: without clients that ask for jobs, nothing ever leaves a queue.
package attend

import (
	"testing"

	"github.com/penstock/penstock/queue"
)

// Queues lets a drainer ask for jobs of all queues, and a worker for jobs of the named pull queues. Neither takes any.
func Queues(t testing.TB, e queue.Engine, pull ...string) {
	t.Helper()
	var asks []queue.ReserveRequest
	for p := range e.Partitions() {
		asks = append(asks, queue.ReserveRequest{Partition: p})
	}
	for _, name := range pull {
		asks = append(asks, queue.ReserveRequest{Queue: name})
	}
	for _, r := range asks {
		r.Number, r.Client = 1, queue.Client{ID: "attendant", Name: "attendant"}
		if _, err := e.Reserve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}
