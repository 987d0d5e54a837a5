package api

import (
	"net/http"
	"time"

	"github.com/penstock/penstock/queue/rules"
)

// redisCell is the value of the parameter "as" that asks for an answer like that of redis-cell's CL.THROTTLE.
const redisCell = "redis-cell"

// cell is an answer as redis-cell gives it: 1 if it is limited, the limit, what remains, and in how many seconds the
// same would pass, -1 if it did, and all is fresh.
type cell [5]int64

func cellOf(a *rules.Taken) cell {
	c := cell{0, a.Limit, a.Remaining, -1, ceilDiv(a.ResetAfter, time.Second)}
	if !a.Allowed && !a.Shadow {
		c[0], c[3] = 1, ceilDiv(a.RetryAfter, time.Second)
	}
	return c
}

// answerForm reads the parameter "as": the form of the answer to a question.
func answerForm(r *http.Request, q *questions, op rules.TakeOp) (asCell bool, p *Problem) {
	if !r.URL.Query().Has("as") {
		return false, nil
	}
	switch as := r.URL.Query().Get("as"); {
	case as != redisCell:
		return false, badField("as", shorten(as)+" must be "+redisCell+", or left out for an answer with names")
	case op != rules.TakeNow && op != rules.TakePeek:
		return false, badField("as", "is of take and peek")
	case q.list:
		return false, badField("as", redisCell+" is for one question")
	}
	return true, nil
}
