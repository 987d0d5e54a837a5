package pull

import (
	"context"
	"sync"
)

// maxIdleTurns is how many queues without a caller are kept.
const maxIdleTurns = 1000

// QueueTurns keeps the [Turns] of queues, by name. It is safe for concurrent use.
type QueueTurns struct {
	engine     TurnEngine
	dispatcher *Dispatcher

	using   sync.WaitGroup
	lending sync.WaitGroup // of the turns in lent
	mu      sync.Mutex
	queues  map[string]*sharedTurns
	idle    int // number of queues without a caller
	lent    map[*Departure]struct{}
	loans   int // number of turns that are lent, or wanted to be
}

// sharedTurns is shared by all callers that wait for turns of one queue.
type sharedTurns struct {
	*Turns
	users int
}

// NewQueueTurns returns the turns of all queues. The dispatcher, which hands them out, must use the same engine.
func NewQueueTurns(engine TurnEngine, dispatcher *Dispatcher) *QueueTurns {
	return &QueueTurns{
		engine: engine, dispatcher: dispatcher, queues: map[string]*sharedTurns{}, lent: map[*Departure]struct{}{},
	}
}

// Wait waits for a turn of a queue; see [Turns.Wait].
func (q *QueueTurns) Wait(ctx context.Context, queue string, r TurnRequest) error {
	return q.Use(ctx, queue, r, func(turn *Turn) error { return turn.Wait(ctx) })
}

// Use reserves a turn and passes it to use, which must wait for it or cancel it, and must end what came.
func (q *QueueTurns) Use(ctx context.Context, queue string, r TurnRequest, use func(*Turn) error) error {
	turns := q.use(queue)
	defer q.leave(turns)
	turn, err := turns.Request(ctx, r)
	if err != nil {
		return err
	}
	return use(turn)
}

// Close ends the turns that are lent, and waits until the engine knows of all turns that came or were given up. Call it
// when no Wait begins any more.
func (q *QueueTurns) Close() {
	q.using.Wait() // a server that was stopped by force may still have handlers that have not returned
	q.endLoans()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, turns := range q.queues {
		turns.Close()
	}
}

func (q *QueueTurns) use(queue string) *sharedTurns {
	q.mu.Lock()
	defer q.mu.Unlock()
	turns := q.queues[queue]
	if turns == nil {
		turns = &sharedTurns{Turns: NewTurns(q.engine, q.dispatcher, queue)}
		q.queues[queue] = turns
	} else if turns.users == 0 {
		q.idle--
	}
	turns.users++
	q.using.Add(1)
	return turns
}

func (q *QueueTurns) leave(turns *sharedTurns) {
	defer q.using.Done()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.release(turns)
}

// release notes that turns have a user less. mu is held.
func (q *QueueTurns) release(turns *sharedTurns) {
	if turns.users--; turns.users > 0 {
		return
	}
	if q.idle++; q.idle <= maxIdleTurns {
		return
	}
	for name, other := range q.queues { // any will do: it is cheap to make again
		if other.users == 0 {
			q.idle--
			delete(q.queues, name)
			go other.Close()
			return
		}
	}
}
