package queue

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/changekind"
)

// KeptSpec is a spec that a queue has, or had.
type KeptSpec struct {
	Revision int64
	Spec     Spec
}

// History has the specs that a queue had.
type History struct {
	Queue string
	// Revision is the queue's present revision, 0 if it was deleted.
	Revision int64
	Specs    []KeptSpec // newest first
}

// UnknownRevision is the error of a rollback to a revision whose spec is not kept.
type UnknownRevision struct {
	Queue    string
	Revision int64   // 0 for the spec before the last change
	Known    []int64 // newest first
}

func (e *UnknownRevision) Error() string {
	known := "no revision is"
	if len(e.Known) > 0 {
		known = "recorded revisions: " + strings.Trim(fmt.Sprint(e.Known), "[]")
	}
	if e.Revision == 0 {
		return fmt.Sprintf("%s: the spec before the last change is not recorded; %s", e.Queue, known)
	}
	return fmt.Sprintf("%s: revision %d is not recorded; %s", e.Queue, e.Revision, known)
}

// Earlier returns the spec of a revision. 0 means the spec before the last change; for a deleted queue that is its
// last spec. Its error is an *UnknownRevision.
func (h *History) Earlier(revision int64) (Spec, error) {
	unknown := &UnknownRevision{Queue: h.Queue, Revision: revision}
	for i := range h.Specs {
		s := &h.Specs[i]
		if s.Revision == revision || revision == 0 && (h.Revision == 0 || !s.Spec.Equal(h.Specs[0].Spec)) {
			return s.Spec, nil
		}
		unknown.Known = append(unknown.Known, s.Revision)
	}
	return Spec{}, unknown
}

// At returns the spec of a revision, or nil if it is not kept.
func (h *History) At(revision int64) *Spec {
	for i := range h.Specs {
		if h.Specs[i].Revision == revision {
			return &h.Specs[i].Spec
		}
	}
	return nil
}

// Join fills in Before and After of changes to specs. It is for engines.
func (h *History) Join(list []Change) {
	for i := range list {
		if c := &list[i]; c.What.OfSpecs() {
			c.Before = h.At(c.Was)
			if c.What != changekind.Deleted {
				c.After = h.At(c.Revision)
			}
		}
	}
}
