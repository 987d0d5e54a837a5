package httpio

import (
	"errors"
	"net/http"

	"github.com/penstock/penstock/internal/ops"
)

const (
	// FreeBody is the part of a body that is paid for with its connection.
	FreeBody = 4 << 10
	// bodyCost is how many bytes of memory a byte of a job takes at most: in the buffer that it is read into, in the
	// engine's record, and in the batch that carries the record.
	bodyCost = 3
)

// Charge is what a request has taken from the memory budget. Free it when the request ends.
type Charge struct {
	account *ops.Account
	n       int64
}

// NewCharge returns an empty charge to an account.
func NewCharge(account *ops.Account) *Charge { return &Charge{account: account} }

// Account returns the account that pays.
func (c *Charge) Account() *ops.Account { return c.account }

// Grow raises the charge to the cost of n bytes of jobs.
func (c *Charge) Grow(n int) *Problem { return c.Raise(int64(n) * bodyCost) }

// Raise raises the charge to n. A charge that is already higher stays.
func (c *Charge) Raise(n int64) *Problem {
	more := n - c.n
	if more <= 0 {
		return nil
	}
	if err := c.account.Take(more); err != nil {
		return OverBudget(err)
	}
	c.n += more
	return nil
}

// force is Raise that always succeeds, even over budget.
func (c *Charge) force(n int64) {
	if more := n - c.n; more > 0 {
		c.account.Add(more)
		c.n += more
	}
}

// Add adds the cost of n bytes of jobs.
func (c *Charge) Add(n int) *Problem { return c.Raise(c.n + int64(n)*bodyCost) }

// Ahead charges for up to n texts of at most size bytes before they are read. It returns how many of them the budget
// allows; if not even one, a problem.
func (c *Charge) Ahead(n, size int) (int, *Problem) {
	each := int64(size) * bodyCost
	n, err := c.account.TakeSome(n, each)
	if err != nil {
		return 0, OverBudget(err)
	}
	c.n += int64(n) * each
	return n, nil
}

// Shrink lowers the charge to the cost of n bytes of jobs.
func (c *Charge) Shrink(n int) {
	if less := c.n - int64(n)*bodyCost; less > 0 {
		c.account.Free(less)
		c.n -= less
	}
}

// Free gives all of the charge back.
func (c *Charge) Free() {
	if c.n > 0 {
		c.account.Free(c.n)
		c.n = 0
	}
}

// OverBudget returns the problem for an error of an exhausted budget.
func OverBudget(err error) *Problem {
	if errors.Is(err, ops.ErrShare) {
		return &Problem{
			Reason: ReasonOverShare, RetryAfter: RetryOverloaded,
			Detail: "your address has its share of this server's memory in use; wait for answers before you send more",
		}
	}
	return &Problem{
		Reason: ReasonOverloaded, RetryAfter: RetryOverloaded,
		Detail: "all the memory that this server has for requests is in use",
	}
}

// RefuseBudget answers a request for which the budget is exhausted. It is the Refuse of a server.
func RefuseBudget(w http.ResponseWriter, err error) { OverBudget(err).Write(w) }
