package audit

import "strings"

// Budget is the storage that an entry counts toward. Each budget has its own bytes and its own chain of digests:
// entries push out older ones of the same budget only.
type Budget string

// The budgets besides the apps' own.
const (
	// Operators is for actions of operators.
	Operators Budget = "operators"
	// Anonymous is for requests refused before their sender was known.
	Anonymous Budget = "anonymous"
	// Nobody is for automatic changes, and for all changes if authentication is disabled.
	Nobody Budget = "nobody"
)

// ofApp is the prefix of an app's budget.
const ofApp = "app:"

// OfApp returns the budget of an app.
func OfApp(app string) Budget { return Budget(ofApp + app) }

// BudgetOf returns the budget for an entry of an actor. refused is Entry.Refused.
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

// Bytes of each budget in a store, over all partitions; each partition has an equal part.
const (
	OperatorsBytes = 128 << 20
	NobodyBytes    = 64 << 20
	AnonymousBytes = 16 << 20
	AppBytes       = 16 << 20
)

// Bytes returns the approximate number of bytes a store keeps of a budget. Entries are dropped at the age at which
// changes are. When a budget is used up, its oldest entries are dropped earlier.
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
