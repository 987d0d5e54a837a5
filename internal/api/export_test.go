package api

// Operations lists what is served, as operationId METHOD /path.
func Operations() []string {
	var list []string
	for _, r := range routes {
		list = append(list, r.operation+" "+r.method+" "+r.pattern)
	}
	return list
}

// Reasons lists the reasons of refusals.
func Reasons() []Reason { return reasons }

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
