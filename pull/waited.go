package pull

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/queue"
)

// Waited describes how long a caller waited for a turn, for traces.
type Waited struct {
	Queue string
	Lane  string // empty if the caller named none
	Cost  int64
	Since time.Time
	// Err is why the turn did not come; nil if it has come. ErrTurnCanceled means that the caller gave it up.
	Err error
}

// ErrTurnCanceled is the error of Waited for a turn that its caller canceled before waiting for it.
var ErrTurnCanceled = errors.New("pull: the turn was canceled")

// IsTurn reports whether a job is a caller's turn.
func IsTurn(j *queue.Job) bool { return j.ContentType == turnType }

// waited reports the end of a caller's wait.
func (t *Turns) waited(ctx context.Context, k kind, since time.Time, err error) {
	if t.dispatcher == nil || t.dispatcher.o.Waited == nil {
		return
	}
	w := Waited{Queue: t.queue, Lane: k.lane, Cost: k.cost, Since: since, Err: err}
	if w.Lane == TurnLane {
		w.Lane = ""
	}
	t.dispatcher.o.Waited(ctx, w)
}
