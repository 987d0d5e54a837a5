package api

import (
	"net/http"
	"time"

	"github.com/penstock/penstock/queue"
)

// jobJSON is where a job is.
type jobJSON struct {
	Queue      string      `json:"queue"`
	ID         string      `json:"id"`
	State      queue.State `json:"state"`
	Position   int64       `json:"position,omitempty"`
	ETA        *queue.ETA  `json:"eta,omitempty"`
	Cost       int64       `json:"cost"`
	Attempts   int         `json:"attempts"`
	AppendedAt *time.Time  `json:"appended_at,omitempty"`
	DueAt      *time.Time  `json:"due_at,omitempty"`
	EndedAt    *time.Time  `json:"ended_at,omitempty"`
	Reason     string      `json:"reason,omitempty"`
}

func (h *handler) getJob(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	if err := queue.ValidateID(id); err != nil {
		refused(err).write(w)
		return
	}
	info, err := h.engine.Job(r.Context(), name, id)
	if err != nil {
		p := refused(err)
		if p.Reason == ReasonUnknownQueue {
			p = unknownQueue(name)
		}
		p.ID = id
		h.logInternal(p, err, name)
		p.write(w)
		return
	}
	j := jobJSON{
		Queue: info.Queue, ID: info.ID, State: info.State, Position: info.Position, Cost: info.Cost, Attempts: info.Attempts,
		AppendedAt: instant(info.AppendedAt), DueAt: instant(info.DueAt), EndedAt: instant(info.EndedAt), Reason: info.Reason,
	}
	if !info.ETA.At.IsZero() {
		j.ETA = &queue.ETA{At: info.ETA.At.UTC(), Exact: info.ETA.Exact}
	}
	writeJSON(w, http.StatusOK, j)
}

// drainerJSON is a drainer that reserved lately.
type drainerJSON struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	LastSeen time.Time `json:"last_seen"`
}

func (h *handler) listDrainers(w http.ResponseWriter, r *http.Request) {
	drainers, err := h.engine.Drainers(r.Context())
	if err != nil {
		h.fail(w, err, "")
		return
	}
	list := make([]drainerJSON, 0, len(drainers))
	for _, d := range drainers {
		list = append(list, drainerJSON{ID: d.ID, Name: d.Name, Version: d.Version, LastSeen: d.LastSeen.UTC()})
	}
	writeJSON(w, http.StatusOK, struct {
		Drainers []drainerJSON `json:"drainers"`
	}{list})
}
