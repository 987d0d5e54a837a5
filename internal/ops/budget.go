package ops

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Refusals of a Budget.
var (
	// ErrSpent means that the whole budget is in use.
	ErrSpent = errors.New("the server's whole budget is in use")
	// ErrShare means that the client's share is in use.
	ErrShare = errors.New("this client's share of the budget is in use")
)

// Budget bounds the use of bytes, or of another countable resource, in total and per client. It never blocks: it
// refuses, because a connection that waits would hold memory too.
//
// The first half of the budget goes to any client, even all to one. The second half goes only to clients that use less
// than a quarter of the whole. So one client gets at most half, and other clients always find some.
type Budget struct {
	limit, half, share int64
	used               atomic.Int64
	refusedShare       atomic.Int64
	refusedAll         atomic.Int64
	nobody             Account

	mu       sync.Mutex
	accounts map[string]*Account
}

// NewBudget returns a budget of limit units.
func NewBudget(limit int64) *Budget {
	b := &Budget{limit: limit, half: limit / 2, share: max(1, limit/4), accounts: map[string]*Account{}}
	b.nobody.b = b
	return b
}

// Limit returns the size of the budget.
func (b *Budget) Limit() int64 { return b.limit }

// Used returns the amount in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// RefusedShare returns the number of refusals with ErrShare.
func (b *Budget) RefusedShare() int64 { return b.refusedShare.Load() }

// RefusedAll returns the number of refusals with ErrSpent.
func (b *Budget) RefusedAll() int64 { return b.refusedAll.Load() }

// Nobody returns the account for use that belongs to no client. Only the whole budget limits it.
func (b *Budget) Nobody() *Account { return &b.nobody }

// Open returns a client's account, which all its holders share. The caller must Close it. For an empty name it returns
// the Nobody account.
func (b *Budget) Open(client string) *Account {
	if client == "" {
		return &b.nobody
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[client]
	if a == nil {
		a = &Account{b: b, client: client}
		b.accounts[client] = a
	}
	a.holders++
	return a
}

// Account is one client's use of a Budget. It is safe for concurrent use.
type Account struct {
	b       *Budget
	client  string
	used    atomic.Int64
	holders int // guarded by the budget's mutex
}

// Client returns the client's name; empty for the Nobody account.
func (a *Account) Client() string { return a.client }

// Take takes n units, or fails with ErrShare or ErrSpent and takes nothing.
func (a *Account) Take(n int64) error {
	_, err := a.TakeSome(1, n)
	return err
}

// TakeSome takes `each` units for up to n items and returns the number of items. It halves n until the budget suffices.
// If the budget does not suffice for one item, it fails with ErrShare or ErrSpent and takes nothing.
func (a *Account) TakeSome(n int, each int64) (int, error) {
	for {
		err := a.try(int64(n) * each)
		if err == nil {
			return n, nil
		}
		if n > 1 {
			n /= 2
			continue
		}
		if errors.Is(err, ErrShare) {
			a.b.refusedShare.Add(1)
		} else {
			a.b.refusedAll.Add(1)
		}
		return 0, err
	}
}

func (a *Account) try(n int64) error {
	all, own := a.b.used.Add(n), a.used.Add(n)
	var err error
	switch {
	case all <= a.b.half:
		return nil
	case a.client != "" && own > a.b.share:
		err = ErrShare
	case all > a.b.limit:
		err = ErrSpent
	default:
		return nil
	}
	a.Free(n)
	return err
}

// Add takes n units even beyond the limit, for memory that is already in use.
func (a *Account) Add(n int64) {
	a.b.used.Add(n)
	a.used.Add(n)
}

// Free returns n units.
func (a *Account) Free(n int64) {
	a.used.Add(-n)
	a.b.used.Add(-n)
}

// Close releases an account returned by Open.
func (a *Account) Close() {
	if a.client == "" {
		return
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.holders--; a.holders == 0 {
		delete(a.b.accounts, a.client)
	}
}
