package api

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// appendJobs appends one job, or a stream of jobs.
func (h *handler) appendJobs(w http.ResponseWriter, r *http.Request) {
	switch t, p := httpio.MediaType(r); {
	case p != nil:
		w.Header().Set("Accept", httpio.MediaJSON+", "+httpio.MediaNDJSON)
		p.Write(w)
	case t == httpio.MediaNDJSON:
		h.appendStream(w, r)
	default:
		h.appendJob(w, r)
	}
}

// scratch is the memory of a request that appends one job.
type scratch struct {
	body   []byte
	reader *httpio.JobReader
	jobs   [1]queue.Job
}

var scratches = sync.Pool{New: func() any {
	return &scratch{body: make([]byte, 0, 4096), reader: httpio.NewJobReader()}
}}

// free returns the memory to the pool. The engine must be done with the payload.
func (s *scratch) free() {
	if cap(s.body) <= httpio.FreeBody {
		s.jobs[0] = queue.Job{}
		scratches.Put(s)
	}
}

func (h *handler) appendJob(w http.ResponseWriter, r *http.Request) {
	s := scratches.Get().(*scratch)
	body, charged, p := httpio.ReadBody(r, h.account(r), s.body, httpio.MaxJobBytes)
	defer charged.Free()
	s.body = body
	job := &s.jobs[0]
	if p == nil {
		job.Queue, job.App = r.PathValue("queue"), appNameOf(r.Context())
		p = s.reader.Read(body, job)
	}
	if p == nil {
		p = h.o.refusesJob(job)
	}
	if p == nil {
		p = setID(r, job)
	}
	if p != nil {
		s.free()
		p.Write(w)
		return
	}
	name, id := job.Queue, job.ID
	answers, err := h.engine.Append(r.Context(), s.jobs[:])
	var a queue.Appended
	if len(answers) == 1 {
		if a = answers[0]; released(&a) {
			s.free()
		}
	}
	h.report(w, r, name, &a, err)
	h.setLimits(r.Context(), w.Header(), a.Rules)
	h.writeAppended(w, &a, name, id)
}

// setID sets the id of a job: its own, the id in the Idempotency-Key header, or a new one.
func setID(r *http.Request, job *queue.Job) *httpio.Problem {
	const header = "Idempotency-Key"
	keys := r.Header[header]
	if len(keys) == 0 {
		if job.ID == "" {
			job.ID = queue.NewID()
		}
		return nil
	}
	key := strings.TrimSpace(keys[0])
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' { // a string of a structured field
		key = key[1 : n-1]
	}
	bad := func(detail string) *httpio.Problem {
		return &httpio.Problem{Reason: httpio.ReasonInvalidRequest, Field: header, Detail: detail}
	}
	switch {
	case len(keys) > 1:
		return bad("is given more than once")
	case key == "":
		return bad("the header Idempotency-Key is empty; give the job's id in it, 1 to " + strconv.Itoa(names.MaxIDBytes) +
			" visible ASCII characters, or omit the header to get a new id")
	case job.ID != "" && job.ID != key:
		return bad("is " + httpio.Shorten(key) + " but the job's id is " + job.ID +
			"; give only one of them")
	}
	if err := names.ValidateID(key); err != nil {
		p := httpio.ProblemOf(err)
		p.Field = header
		return p
	}
	job.ID = key
	return nil
}

// released reports whether the engine has answered for the job and no longer holds its payload. After an unknown
// outcome, the engine may still hold it. The same is true if the overflow accepted or refused the job, since the job
// may first have gone to an engine that did not answer.
func released(a *queue.Appended) bool {
	if a.Outcome == queue.Accepted || a.Outcome == queue.Duplicate {
		return a.State != queue.Deferred
	}
	return a.Outcome.OnlyByEngine()
}

// report gives a failed job without an error of its own the error of the whole call, and logs a job that was refused or
// deferred.
func (h *handler) report(w http.ResponseWriter, r *http.Request, name string, a *queue.Appended, err error) {
	if a.Outcome == queue.Failed && a.Err == nil {
		a.Err = err
	}
	if a.Outcome == queue.Full {
		h.warnNoOverflow(r.Context(), name)
	}
	if h.o.Decisions == nil || a.Outcome == queue.Duplicate || a.Outcome == queue.Accepted && a.State != queue.Deferred {
		return
	}
	what, reason, wait := "deferred", "overflow", time.Until(a.ETA.At)
	if _, _, limited := rules.Limited(a.Rules); limited {
		reason = queue.LimitReached.String()
	}
	if a.Outcome != queue.Accepted {
		p := httpio.JobProblem(a, name, a.ID)
		what, reason, wait = "refused", p.Reason.Code, p.RetryAfter
	}
	h.o.Decisions.Note(what, clip.Text(name, httpio.MaxLogged), reason, func() []slog.Attr {
		list := []slog.Attr{
			slog.String("job", clip.Text(a.ID, httpio.MaxLogged)), slog.String("request", w.Header()[httpio.HeaderRequest][0]),
		}
		if wait > 0 {
			list = append(list, slog.Duration("wait", wait))
		}
		if by := caller(r.Context()); by != nil {
			list = append(list, slog.String("actor", by.Actor.Name))
		}
		return list
	})
}

var replayed = []string{"true"}

// writeAppended writes the answer about one job.
func (h *handler) writeAppended(w http.ResponseWriter, a *queue.Appended, name, id string) {
	if a.Outcome != queue.Accepted && a.Outcome != queue.Duplicate {
		p := httpio.JobProblem(a, name, id)
		h.logInternal(p, a.Err, name)
		p.Write(w)
		return
	}
	out := httpio.NewOutput()
	defer out.Free()
	out.B = append(out.B, '{')
	out.B = httpio.AppendAccepted(out.B, a, id)
	out.B = append(out.B, "}\n"...)
	head := w.Header()
	head["Content-Type"] = httpio.TypeJSON
	status := http.StatusAccepted
	if a.Outcome == queue.Duplicate {
		head["Idempotent-Replayed"] = replayed
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = w.Write(out.B) // an error means that the client is gone; the job was accepted all the same
}

// refusesJob refuses a job that asks for the overflow if there is none. Otherwise the sender would learn that only when
// the queue is full.
func (o *Options) refusesJob(job *queue.Job) *httpio.Problem {
	if o.Overflow || job.Overflow != queue.Defer {
		return nil
	}
	return noOverflow("overflow", "send the job without overflow, and retry when there is room")
}

// refusesSpec refuses a spec that asks for the overflow if there is none.
func (o *Options) refusesSpec(spec *queue.Spec) *httpio.Problem {
	if o.Overflow || spec.Overflow != queue.Defer {
		return nil
	}
	return noOverflow("overflow", "set overflow to reject")
}

func noOverflow(field, instead string) *httpio.Problem {
	return &httpio.Problem{
		Reason: httpio.ReasonNoOverflow, Field: field,
		Detail: "is defer, but this ingress has no NATS for the overflow: start it with --nats nats://HOST:PORT, or " +
			instead,
	}
}

// maxWarned bounds the memory of warnedQueues.
const maxWarned = 10_000

// warnedQueues are the queues that warnNoOverflow has checked.
type warnedQueues struct {
	mu    sync.Mutex
	names map[string]bool
}

// add reports whether a queue is new, and adds it.
func (n *warnedQueues) add(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names[name] || len(n.names) >= maxWarned {
		return false
	}
	if n.names == nil {
		n.names = map[string]bool{}
	}
	n.names[name] = true
	return true
}

func (n *warnedQueues) remove(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, name)
}

// warnNoOverflow is called when a full queue has refused a job. If the stored spec says defer but there is no overflow,
// the queue is served as if it said reject. The log says so, once for each queue.
func (h *handler) warnNoOverflow(ctx context.Context, name string) {
	if h.o.Overflow || !h.warned.add(name) {
		return
	}
	info, err := h.engine.Get(ctx, name)
	if err != nil {
		h.warned.remove(name)
		return
	}
	if info.Spec.Overflow == queue.Defer {
		h.o.Logger.Warn(
			"a queue's overflow is defer, but this ingress has no NATS: jobs without room are refused; start it with --nats",
			"queue", name,
		)
	}
}
