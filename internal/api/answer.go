package api

import (
	"encoding/json"
	"net/http"

	"github.com/penstock/penstock/queue"
)

const (
	// freeAnswer is how much of an answer is in what its connection costs.
	freeAnswer = 16 << 10
	// answerCost is what a byte of an answer may take until the client has read it: the buffer that it is encoded in
	// doubles.
	answerCost = 2
)

// writeJSON answers with v. A large answer is charged to the client until it is written, which takes as long as the
// client takes to read it.
func (h *handler) writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	h.writeCharged(w, r, status, v, &charge{account: h.account(r)})
}

// writeCharged is writeJSON for an answer whose parts are charged already. The charge is given back.
func (h *handler) writeCharged(w http.ResponseWriter, r *http.Request, status int, v any, c *charge) {
	defer c.free()
	a := &answerWriter{w: w, r: r, status: status, charge: c}
	// It writes once, from the buffer that it has encoded all in.
	out := json.NewEncoder(a)
	out.SetEscapeHTML(false) // what the audit log has digests of stays as it is
	if err := out.Encode(v); err != nil && !a.began {
		(&Problem{Reason: ReasonInternal, Detail: "the answer cannot be written as JSON"}).write(w)
	}
}

// answerWriter writes an answer that is encoded, or a refusal if there is no memory to keep it until the client has
// read it.
type answerWriter struct {
	w      http.ResponseWriter
	r      *http.Request
	status int
	charge *charge
	began  bool
}

func (a *answerWriter) Write(b []byte) (int, error) {
	a.began = true
	if len(b) > freeAnswer {
		need := int64(len(b)) * answerCost
		if a.r.Method != http.MethodGet && a.r.Method != http.MethodHead {
			a.charge.count(need) // it was done, and no answer may say otherwise
		} else if p := a.charge.take(need); p != nil {
			clear(a.w.Header()) // such as the ETag of what is not shown
			p.write(a.w)
			return len(b), nil
		}
	}
	head := a.w.Header()
	head["Content-Type"] = typeJSON
	head["Cache-Control"] = noStore
	a.w.WriteHeader(a.status)
	return a.w.Write(b)
}

// ahead charges for up to n texts of at most size bytes that are not read yet, fewer if there is no memory for all, and
// returns for how many. The refusal is that of one.
func (c *charge) ahead(n, size int) (int, *Problem) {
	each := int64(size) * bodyCost
	n, err := c.account.TakeSome(n, each)
	if err != nil {
		return 0, overBudget(err)
	}
	c.n += int64(n) * each
	return n, nil
}

// shrink gives back what it is more than for n bytes of jobs.
func (c *charge) shrink(n int) {
	if less := c.n - int64(n)*bodyCost; less > 0 {
		c.account.Free(less)
		c.n -= less
	}
}

// job reads a job and charges for what it carries: first for the most that may be, then for what it is.
func (h *handler) job(r *http.Request, name, id string) (info queue.JobInfo, c *charge, p *Problem, err error) {
	c = &charge{account: h.account(r)}
	if p = c.take(queue.MaxPayloadBytes); p != nil {
		return info, c, p, nil
	}
	info, err = h.engine.Job(r.Context(), name, id)
	c.shrink(len(info.Payload))
	if err == nil {
		p = c.grow(len(info.Payload))
	}
	return info, c, p, err
}
