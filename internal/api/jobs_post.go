package api

import (
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// scratch is what one request for a single job needs. It goes back to the pool
// only when the engine is done with the payload.
type scratch struct {
	body []byte
	env  *envelope
	jobs [1]queue.Job
}

var scratches = sync.Pool{New: func() any { return &scratch{body: make([]byte, 0, 4096), env: newEnvelope()} }}

func (s *scratch) free() {
	if cap(s.body) <= freeBody {
		s.jobs[0] = queue.Job{}
		scratches.Put(s)
	}
}

// postJobs takes one job, or a stream of them.
func (h *handler) postJobs(w http.ResponseWriter, r *http.Request) {
	switch t, p := media(r); {
	case p != nil:
		w.Header().Set("Accept", mediaJSON+", "+mediaNDJSON)
		p.write(w)
	case t == mediaNDJSON:
		h.stream(w, r)
	default:
		h.postJob(w, r)
	}
}

func (h *handler) postJob(w http.ResponseWriter, r *http.Request) {
	s := scratches.Get().(*scratch)
	body, charged, p := h.readBody(r, s.body, MaxEnvelopeBytes)
	s.body = body
	if charged.n > 0 {
		defer charged.free()
	}
	job := &s.jobs[0]
	if p == nil {
		job.Queue, job.App = r.PathValue("queue"), appNameOf(r.Context())
		p = s.env.read(body, job)
	}
	if p == nil {
		p = h.o.refusesJob(job)
	}
	if p == nil {
		p = identify(r, job)
	}
	if p != nil {
		s.free()
		p.write(w)
		return
	}
	name, id := job.Queue, job.ID
	answers, err := h.engine.Append(r.Context(), s.jobs[:])
	if len(answers) == 1 && done(&answers[0]) {
		s.free()
	}
	var a queue.Appended
	if len(answers) == 1 {
		a = answers[0]
	}
	if a.Outcome == queue.Failed && a.Err == nil {
		a.Err = err
	}
	if a.Outcome == queue.Full {
		h.noteFull(r.Context(), name)
	}
	h.decided(w, r, name, &a)
	h.setLimits(r.Context(), w.Header(), a.Rules)
	h.answer(w, &a, name, id)
}

// done reports whether the engine itself has answered, and holds the job's payload no
// more. After an unknown outcome it may, and what went past it to the overflow, or
// was refused there, may have been given to an engine that did not answer.
func done(a *queue.Appended) bool {
	if a.Outcome == queue.Accepted || a.Outcome == queue.Duplicate {
		return a.State != queue.Deferred
	}
	return a.Outcome.OnlyByEngine()
}

// identify settles a job's id: its own, the Idempotency-Key's, or a new one.
func identify(r *http.Request, job *queue.Job) *Problem {
	keys := r.Header["Idempotency-Key"]
	if len(keys) == 0 {
		if job.ID == "" {
			job.ID = queue.NewID()
		}
		return nil
	}
	key := strings.TrimSpace(keys[0])
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' { // a structured field's string
		key = key[1 : n-1]
	}
	if len(keys) > 1 {
		return &Problem{Reason: ReasonInvalidRequest, Field: "Idempotency-Key", Detail: "is given more than once"}
	}
	if key == "" {
		return &Problem{
			Reason: ReasonInvalidRequest, Field: "Idempotency-Key",
			Detail: "the header Idempotency-Key is empty; give the job's id in it, 1 to " + strconv.Itoa(names.MaxIDBytes) +
				" visible ASCII characters, or leave the header out and an id is made",
		}
	}
	if job.ID != "" && job.ID != key {
		return &Problem{
			Reason: ReasonInvalidRequest, Field: "Idempotency-Key",
			Detail: "is " + shorten(key) + " but the job's id is " + job.ID +
				"; they are two names for one thing, give one of them",
		}
	}
	if err := names.ValidateID(key); err != nil {
		p := refused(err)
		p.Field = "Idempotency-Key"
		return p
	}
	job.ID = key
	return nil
}

var replayed = []string{"true"}

// answer writes what became of a single job.
func (h *handler) answer(w http.ResponseWriter, a *queue.Appended, name, id string) {
	if a.Outcome != queue.Accepted && a.Outcome != queue.Duplicate {
		p := refusedJob(a, name, id)
		h.logInternal(p, a.Err, name)
		p.write(w)
		return
	}
	out := takeOutput()
	defer out.free()
	out.b = append(out.b, '{')
	out.b = appendAccepted(out.b, a, id)
	out.b = append(out.b, "}\n"...)
	head := w.Header()
	head["Content-Type"] = typeJSON
	status := http.StatusAccepted
	if a.Outcome == queue.Duplicate {
		head["Idempotent-Replayed"] = replayed
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = w.Write(out.b) // the client may be gone; the job is in all the same
}

// logInternal tells the log of what the client cannot mend.
func (h *handler) logInternal(p *Problem, err error, name string) {
	if p.Reason == ReasonInternal {
		h.o.Logger.Error("request failed", "queue", shorten(name), "error", err)
	}
}
