package ops

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Why a Budget refuses.
var (
	// ErrSpent: all of it is in use.
	ErrSpent = errors.New("all that this server has is in use")
	// ErrShare: the client's share is, and others want theirs.
	ErrShare = errors.New("the share of this client is in use")
)

// Budget bounds what is in use at once, of bytes or of anything else that is counted, and how much of it one client
// has. It never blocks: who finds nothing left is turned away, which is better than to hold a connection that waits.
//
// Up to half of it goes to whoever asks first, one client alone included. Of the other half nobody gets anything who
// has a quarter of the whole: so one client has at most half, and what it leaves is there for the others.
type Budget struct {
	limit, half, share int64
	used               atomic.Int64
	refusedShare       atomic.Int64
	refusedAll         atomic.Int64
	nobody             Account

	mu       sync.Mutex
	accounts map[string]*Account
}

// NewBudget returns a budget of so many.
func NewBudget(limit int64) *Budget {
	b := &Budget{limit: limit, half: limit / 2, share: max(1, limit/4), accounts: map[string]*Account{}}
	b.nobody.b = b
	return b
}

// Limit is how much there is.
func (b *Budget) Limit() int64 { return b.limit }

// Used is how much is in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// RefusedShare is how often a client had no more because of its share.
func (b *Budget) RefusedShare() int64 { return b.refusedShare.Load() }

// RefusedAll is how often there was no more for anybody.
func (b *Budget) RefusedAll() int64 { return b.refusedAll.Load() }

// Nobody is the account of what is no client's: it has no share, only the whole.
func (b *Budget) Nobody() *Account { return &b.nobody }

// Open returns a client's account, which all of its holders share; Close it when done. A client without a name is
// nobody.
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

// Account is what one client has of a Budget. It is safe for use by many goroutines.
type Account struct {
	b       *Budget
	client  string
	used    atomic.Int64
	holders int // guarded by the budget's mutex
}

// Client is whose account it is; empty for nobody's.
func (a *Account) Client() string { return a.client }

// Take takes n, or nothing: then the error is ErrShare or ErrSpent.
func (a *Account) Take(n int64) error {
	_, err := a.TakeSome(1, n)
	return err
}

// TakeSome takes each for as many of n as there is enough for, half as many at a time until it is one, and returns how
// many. If there is not enough for one it takes nothing: then the error is ErrShare or ErrSpent.
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

// Add takes n, whether there is so much or not: what is there already can only be counted.
func (a *Account) Add(n int64) {
	a.b.used.Add(n)
	a.used.Add(n)
}

// Free gives back n that was taken.
func (a *Account) Free(n int64) {
	a.used.Add(-n)
	a.b.used.Add(-n)
}

// Close ends one Open.
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
