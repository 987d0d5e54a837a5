package httpio

import (
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// HeaderRequest has the id of a request: in its answer, in a problem, in the log, and in the records of its changes.
const HeaderRequest = "X-Request-Id"

// maxRequestID is the longest id that is accepted from a client.
const maxRequestID = 64

// RequestIDs generates ids of requests. They are random: a counter would reveal how many requests others send.
type RequestIDs struct {
	process string // the beginning of every id
}

// NewRequestIDs returns a generator for this process.
func NewRequestIDs() *RequestIDs { return &RequestIDs{process: queue.NewID()[16:] + "-"} }

// ID returns the request's own id, if it is valid, or else a new one, as a header's value.
func (i *RequestIDs) ID(r *http.Request) []string {
	if given := r.Header[HeaderRequest]; len(given) == 1 && len(given[0]) <= maxRequestID &&
		names.ValidateID(given[0]) == nil {
		return given
	}
	var text [64]byte
	return []string{string(strconv.AppendUint(append(text[:0], i.process...), rand.Uint64(), 36))}
}
