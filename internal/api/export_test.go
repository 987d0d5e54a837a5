package api

import (
	"log/slog"

	"github.com/penstock/penstock/queue/audit"
)

// Operations lists what is served, as operationId METHOD /path.
func Operations() []string {
	var list []string
	for _, r := range routes {
		list = append(list, r.operation+" "+r.method+" "+r.pattern)
	}
	return list
}

// Operation is one row of the routes.
type Operation struct{ Name, Method, Path string }

// EachOperation lists what is served.
func EachOperation() []Operation {
	var list []Operation
	for _, r := range routes {
		list = append(list, Operation{r.operation, r.method, r.pattern})
	}
	return list
}

// Refusals returns what notes a refusal, and what an API does with them when it is closed.
func Refusals(store audit.Log) (add func(who, operation, reason string), stop func()) {
	r := &refusals{store: store, logger: slog.New(slog.DiscardHandler)}
	return func(who, operation, reason string) {
		r.add(refusalKey{who, operation, reason}, func() audit.Entry {
			return audit.Entry{Actor: audit.Actor{Address: who, Operation: operation}, Refused: reason}
		})
	}, r.stop
}
