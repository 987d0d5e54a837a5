package api

import (
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// headerRequest names a request: in its answer, in a problem, in the log, and in the records of what it did.
const headerRequest = "X-Request-Id"

// maxRequestID is the longest name of a request that is taken over from its client.
const maxRequestID = 64

// requestIDs names the requests of a process. The names are random: a count would tell how many requests others send.
type requestIDs struct {
	process string // what its names begin with
}

func newRequestIDs() *requestIDs { return &requestIDs{process: queue.NewID()[16:] + "-"} }

// id is the name that the client gave the request, if it can be shown, or else a new one.
func (i *requestIDs) id(r *http.Request) []string {
	if given := r.Header[headerRequest]; len(given) == 1 && len(given[0]) <= maxRequestID &&
		names.ValidateID(given[0]) == nil {
		return given
	}
	var text [64]byte
	return []string{string(strconv.AppendUint(append(text[:0], i.process...), rand.Uint64(), 36))}
}
