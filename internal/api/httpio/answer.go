package httpio

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// freeAnswer is the part of an answer that is paid for with its connection.
	freeAnswer = 16 << 10
	// answerCost is how many bytes of memory a byte of an answer takes until the client has read it: the encoder's buffer
	// doubles.
	answerCost = 2
)

// WriteJSON answers with v. A large answer is charged to c until the client has read it. WriteJSON frees c.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, v any, c *Charge) {
	defer c.Free()
	a := &answerWriter{w: w, r: r, status: status, charge: c}
	// The encoder writes once, when all is in its buffer.
	out := json.NewEncoder(a)
	out.SetEscapeHTML(false) // audit digests are of the unescaped text
	if err := out.Encode(v); err != nil && !a.began {
		(&Problem{Reason: ReasonInternal, Detail: "the answer cannot be written as JSON"}).Write(w)
	}
}

// answerWriter writes an encoded answer, or a problem if there is no memory to hold it until the client has read it.
type answerWriter struct {
	w      http.ResponseWriter
	r      *http.Request
	status int
	charge *Charge
	began  bool
}

func (a *answerWriter) Write(b []byte) (int, error) {
	a.began = true
	if len(b) > freeAnswer {
		need := int64(len(b)) * answerCost
		if a.r.Method != http.MethodGet && a.r.Method != http.MethodHead {
			a.charge.force(need) // the change was made, so the answer must not be a refusal
		} else if p := a.charge.Raise(need); p != nil {
			clear(a.w.Header()) // such as the ETag of the answer that is not sent
			p.Write(a.w)
			return len(b), nil
		}
	}
	head := a.w.Header()
	head["Content-Type"] = TypeJSON
	head["Cache-Control"] = NoStore
	a.w.WriteHeader(a.status)
	return a.w.Write(b)
}

// AppendAccepted appends the members that describe an accepted job.
func AppendAccepted(b []byte, a *queue.Appended, id string) []byte {
	b = append(b, `"id":`...)
	b = appendString(b, id)
	b = append(b, `,"state":"`...)
	b = append(b, a.State.String()...)
	b = append(b, '"')
	if a.Position > 0 {
		b = append(b, `,"position":`...)
		b = strconv.AppendInt(b, a.Position, 10)
	}
	return appendETA(b, a.ETA)
}

func appendETA(b []byte, eta queue.ETA) []byte {
	if eta.At.IsZero() {
		return b
	}
	b = append(b, `,"eta":{"at":`...)
	b = appendTime(b, eta.At)
	b = append(b, `,"exact":`...)
	b = strconv.AppendBool(b, eta.Exact)
	return append(b, '}')
}

// appendTime appends an instant as RFC 3339 in UTC, to the microsecond.
func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
	return append(b, '"')
}
