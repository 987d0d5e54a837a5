package pull

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/queue"
)

// maxLoans is the maximum number of turns that are lent at a time. Each of them is extended again and again.
const maxLoans = 10_000

// ErrLent means that too many turns are lent.
var ErrLent = errors.New("too many callers have yet to report what they used")

// Loan is a turn that has come, and that its caller settles by the engine under Lease, as delivered.
type Loan struct {
	Lease queue.Lease
	Token string           // the lease, as the API gives it to clients
	Costs map[string]int64 // what was charged, in the units that limits count

	came *Departure
}

// End ends the turn as delivered, unless its caller has settled it.
func (l *Loan) End() { l.came.End(queue.Settlement{}) }

// Lend waits for a turn as Wait does, and lends it to the caller, who can then report what it used. The turn is kept
// for that time. Then, or when q closes, it ends as delivered, and the charged costs stand.
func (q *QueueTurns) Lend(ctx context.Context, queue string, r TurnRequest, within time.Duration) (*Loan, error) {
	if !q.reserveLoan() {
		return nil, ErrLent
	}
	var came *Departure
	turns := q.use(queue)
	defer q.leave(turns)
	turn, err := turns.Request(ctx, r)
	if err == nil {
		came, err = turn.Come(ctx)
	}
	if err != nil {
		q.mu.Lock()
		q.loans--
		q.mu.Unlock()
		return nil, err
	}
	q.mu.Lock()
	turns.users++ // so that the turns stay until the loan is over
	q.lent[came] = struct{}{}
	q.lending.Add(1)
	q.mu.Unlock()
	came.keepFor(within, func() { q.ended(came, turns) })
	return &Loan{Lease: came.lease, Token: Token(came.lease.Fence, came.attempt), Costs: came.Costs, came: came}, nil
}

func (q *QueueTurns) reserveLoan() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.loans >= maxLoans {
		return false
	}
	q.loans++
	return true
}

// ended notes that a loan is over.
func (q *QueueTurns) ended(came *Departure, turns *sharedTurns) {
	defer q.lending.Done()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loans--
	delete(q.lent, came)
	q.release(turns)
}

// endLoans ends all loans.
func (q *QueueTurns) endLoans() {
	q.mu.Lock()
	lent := make([]*Departure, 0, len(q.lent))
	for came := range q.lent {
		lent = append(lent, came)
	}
	q.mu.Unlock()
	for _, came := range lent {
		came.End(queue.Settlement{})
	}
	q.lending.Wait() // some may be ending at this moment
}
