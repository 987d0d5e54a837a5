package httptarget

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/deliver/usage"
	"github.com/penstock/penstock/queue"
)

// Meant is what an answer means for the queue.
type Meant struct {
	Meaning string        // Delivered, Retry, Dead, Throttled or Down
	Stop    time.Duration // how long nothing should leave the queue
	Why     string        // of Stop, for people
}

// Means returns what an answer means, by its status and headers.
func (t *Target) Means(answer *http.Response, now time.Time) Meant {
	_, asked := RetryAfter(answer.Header, now)
	m := Meant{
		Meaning: t.outcome(answer, asked, now), Why: "the receiver answered " + strconv.Itoa(answer.StatusCode),
	}
	switch m.Meaning {
	case Throttled:
		m.Stop = throttle(answer.Header, now).For
	case Delivered:
		if m.Stop = usedUp(answer.Header, now).For; m.Stop > 0 {
			m.Why += ", with its rate limit used up"
		}
	}
	return m
}

// Used reads what a call has used from its answer while the body is read. It returns nil if no unit that counts can be
// read there. counted are the units that limits count for the call.
func (t *Target) Used(answer *http.Response, counted map[string]int64) *usage.Reader {
	r := t.usage.Read(answer.Header, counted)
	if r.Pending() {
		answer.Body = &usedBody{answer.Body, r}
	}
	return r
}

// BudgetLeft returns the receiver's remaining budget in jobs, as an answer states it, by the queue's Learn. charged is
// what the call was charged, by unit. The error names a field that cannot be true.
func (t *Target) BudgetLeft(
	spec *queue.Spec, h http.Header, now time.Time, charged map[string]int64,
) (queue.Budget, error) {
	if spec.Learn == "" {
		return queue.Budget{}, nil
	}
	return budgetOf(spec, h, now, t.usage.PerCall(charged))
}

// States reports whether answers may state what a call has used in a unit that limits count for it, and whether their
// bodies do.
func (t *Target) States(counted map[string]int64) (anywhere, inBody bool) {
	for unit, source := range t.Actual {
		if _, counts := counted[unit]; counts {
			anywhere, inBody = true, inBody || source.Header == ""
		}
	}
	return anywhere, inBody
}

// usedBody is the body of an answer that states what the call has used.
type usedBody struct {
	io.ReadCloser
	used *usage.Reader
}

func (b *usedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.used.Write(p[:n])
	return n, err
}
