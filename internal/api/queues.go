package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/penstock/penstock/queue"
)

// Pages of the list of queues.
const (
	defaultPage = 100
	maxPage     = 1000
)

// maxSmallBody is the limit of a body that says little, as pause's does.
const maxSmallBody = 4 << 10

func (h *handler) listQueues(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := defaultPage
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxPage {
			badField("limit", shorten(s)+" must be a whole number from 1 to "+strconv.Itoa(maxPage)).write(w)
			return
		}
		limit = n
	}
	infos, err := h.engine.List(r.Context(), q.Get("after"), limit+1) // one more tells whether there is a next page
	if err != nil {
		h.fail(w, err, "")
		return
	}
	page := queuePage{Queues: make([]queueJSON, 0, min(len(infos), limit))}
	for i := range infos {
		if i == limit {
			page.Next = infos[i-1].Spec.Name
			w.Header().Set("Link", "</v1/queues?after="+url.QueryEscape(page.Next)+"&limit="+strconv.Itoa(limit)+`>; rel="next"`)
			break
		}
		page.Queues = append(page.Queues, newQueueJSON(&infos[i]))
	}
	writeJSON(w, http.StatusOK, page)
}

func (h *handler) getQueue(w http.ResponseWriter, r *http.Request) {
	h.showQueue(w, r, r.PathValue("queue"), http.StatusOK)
}

// showQueue answers with a queue as it is now.
func (h *handler) showQueue(w http.ResponseWriter, r *http.Request, name string, status int) {
	info, err := h.engine.Get(r.Context(), name)
	if err != nil {
		h.fail(w, err, name)
		return
	}
	w.Header().Set("ETag", etag(info.Revision))
	writeJSON(w, status, newQueueJSON(&info))
}

func (h *handler) putQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	spec, p := h.readSpec(r, name)
	if p != nil {
		p.write(w)
		return
	}
	expect, p := h.expected(r, name)
	if p != nil {
		p.write(w)
		return
	}
	result, err := h.engine.Put(r.Context(), spec, expect)
	if errors.Is(err, queue.ErrRevision) {
		p := refused(err)
		p.Revision = result.Revision
		p.write(w)
		return
	}
	if err != nil {
		h.fail(w, err, name)
		return
	}
	status := http.StatusOK
	if result.Created {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/queues/"+name)
	}
	h.showQueue(w, r, name, status)
}

// readSpec reads the spec of a PUT. The name may be left out of the body; it
// cannot be another one than the URL's.
func (h *handler) readSpec(r *http.Request, name string) (queue.Spec, *Problem) {
	if p := requireJSON(r); p != nil {
		return queue.Spec{}, p
	}
	body, charged, p := h.readBody(r, nil, queue.MaxSpecBytes)
	defer h.memory.free(charged)
	if p != nil {
		return queue.Spec{}, p
	}
	spec, err := queue.ParseSpec(body)
	if err != nil {
		return queue.Spec{}, refused(err)
	}
	if spec.Name == "" {
		spec.Name = name
	}
	if spec.Name != name {
		return queue.Spec{}, badField("name", "is "+shorten(spec.Name)+" but the URL says "+shorten(name))
	}
	if err := spec.Validate(); err != nil {
		return queue.Spec{}, refused(err)
	}
	if len(spec.Deliver) > 0 {
		if err := h.o.ValidateTarget(spec.Deliver); err != nil {
			return queue.Spec{}, refusedTarget(err)
		}
	}
	return spec, nil
}

func refusedTarget(err error) *Problem {
	var field *queue.FieldError
	if errors.As(err, &field) {
		return refusedField(field)
	}
	return badField("deliver", err.Error())
}

func (h *handler) deleteQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	force := false
	if s := r.URL.Query().Get("force"); s != "" {
		var err error
		if force, err = strconv.ParseBool(s); err != nil {
			badField("force", shorten(s)+" must be true or false").write(w)
			return
		}
	}
	expect, p := h.expected(r, name)
	if p != nil {
		p.write(w)
		return
	}
	if err := h.engine.Delete(r.Context(), name, expect, force); err != nil {
		h.fail(w, err, name)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *handler) pauseQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	reason, p := h.readReason(r)
	if p != nil {
		p.write(w)
		return
	}
	if err := h.engine.Pause(r.Context(), name, reason); err != nil {
		h.fail(w, err, name)
		return
	}
	h.showQueue(w, r, name, http.StatusOK)
}

func (h *handler) resumeQueue(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	if err := h.engine.Resume(r.Context(), name); err != nil {
		h.fail(w, err, name)
		return
	}
	h.showQueue(w, r, name, http.StatusOK)
}

// fail answers with an engine's error.
func (h *handler) fail(w http.ResponseWriter, err error, name string) {
	p := refused(err)
	if p.Reason == ReasonUnknownQueue {
		p = unknownQueue(name)
	}
	h.logInternal(p, err, name)
	p.write(w)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		(&Problem{Reason: ReasonInternal, Detail: "the answer cannot be written as JSON"}).write(w)
		return
	}
	head := w.Header()
	head["Content-Type"] = typeJSON
	head["Cache-Control"] = noStore
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client may be gone
}
