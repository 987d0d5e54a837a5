package audit

import "strings"

// Budget is who pays for an entry. Each budget has its own bytes and its own chain of digests: entries of a budget push
// out older ones of the same budget, and never those of another.
type Budget string

// The budgets beside those of apps.
const (
	// Operators is of what operators do.
	Operators Budget = "operators"
	// Anonymous is of requests that were refused before it was known who sent them.
	Anonymous Budget = "anonymous"
	// Nobody is of what happens by itself, and of all changes where authentication is disabled.
	Nobody Budget = "nobody"
)

// ofApp begins the budget of an app, before the app's name.
const ofApp = "app:"

// OfApp returns the budget of an app.
func OfApp(app string) Budget { return Budget(ofApp + app) }

// BudgetOf returns the budget that pays for an entry of an actor. refused is Entry.Refused.
func BudgetOf(a *Actor, refused string) Budget {
	switch {
	case a.App != "":
		return OfApp(a.App)
	case a.Name != "":
		return Operators
	case refused != "":
		return Anonymous
	}
	return Nobody
}

// Bytes of each budget in a store, all partitions together; each partition has an equal share of them.
const (
	OperatorsBytes = 128 << 20
	NobodyBytes    = 64 << 20
	AnonymousBytes = 16 << 20
	AppBytes       = 16 << 20
)

// Bytes returns about how much a store keeps of a budget. Entries go when they are older than changes are kept; the
// oldest of a budget also when the budget is used up.
func (b Budget) Bytes() uint64 {
	switch {
	case strings.HasPrefix(string(b), ofApp):
		return AppBytes
	case b == Operators:
		return OperatorsBytes
	case b == Anonymous:
		return AnonymousBytes
	}
	return NobodyBytes
}
