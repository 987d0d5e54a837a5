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
