package api

import (
	"errors"
	"net/http"

	"github.com/penstock/penstock/internal/ops"
)

const (
	// freeBody is how much of a body is in what its connection costs.
	freeBody = 4 << 10
	// bodyCost is what a byte of a job may take on its way: where it is read, in the record that the engine makes of it,
	// and in the batch in which that travels.
	bodyCost = 3
	// streamCost is what an open stream holds beside long lines and large batches: a buffer to read, two batches of up to
	// freeArena, and the answers of one.
	streamCost = 768 << 10
)

// charge is what a request has taken from the budget.
type charge struct {
	account *ops.Account
	n       int64
}

// account is whom a request is charged to.
func (h *handler) account(r *http.Request) *ops.Account {
	if a := ops.ClientOf(r.Context()); a != nil {
		return a
	}
	return h.o.Memory.Nobody()
}

// grow makes it a charge for n bytes of jobs.
func (c *charge) grow(n int) *Problem { return c.take(int64(n) * bodyCost) }

// take makes it a charge of n, if it is less.
func (c *charge) take(n int64) *Problem {
	more := n - c.n
	if more <= 0 {
		return nil
	}
	if err := c.account.Take(more); err != nil {
		return overBudget(err)
	}
	c.n += more
	return nil
}

// count makes it a charge of n, if it is less, whether there is so much or not.
func (c *charge) count(n int64) {
	if more := n - c.n; more > 0 {
		c.account.Add(more)
		c.n += more
	}
}

// more adds n bytes of jobs to it.
func (c *charge) more(n int) *Problem {
	if err := c.account.Take(int64(n) * bodyCost); err != nil {
		return overBudget(err)
	}
	c.n += int64(n) * bodyCost
	return nil
}

// free gives it back.
func (c *charge) free() {
	if c.n > 0 {
		c.account.Free(c.n)
		c.n = 0
	}
}

// overBudget is the refusal of what the budget has nothing left for.
func overBudget(err error) *Problem {
	if errors.Is(err, ops.ErrShare) {
		return &Problem{
			Reason: ReasonOverShare, RetryAfter: retryOverloaded,
			Detail: "your address has its share of this server's memory in use; wait for answers before you send more",
		}
	}
	return &Problem{
		Reason: ReasonOverloaded, RetryAfter: retryOverloaded,
		Detail: "all the memory that this server has for requests is in use",
	}
}

// RefuseBudget answers a request that the budget has nothing left for, as a server's Refuse.
func RefuseBudget(w http.ResponseWriter, err error) { overBudget(err).write(w) }
