package deferred

import (
	"strings"

	"github.com/penstock/penstock/queue/names"
)

// subjects has the subjects of a prefix. Queue names are validated before they get here. Only a child's dot has a
// meaning in NATS, so a name cannot become another queue's subject, a wildcard, or a subject outside the prefix.
type subjects struct{ deferred, dead string }

func newSubjects(prefix string) subjects {
	return subjects{deferred: prefix + ".deferred.", dead: prefix + ".dead."}
}

// of returns the subject of a queue's deferred jobs.
func (s subjects) of(queue string) string { return s.deferred + queue }

// queueOf returns the queue of a subject, if it has one.
func (s subjects) queueOf(subject string) (name string, ok bool) {
	name, ok = strings.CutPrefix(subject, s.deferred)
	return name, ok && names.Validate(name) == nil
}

// deadOf returns the subject of the dead letters of a subject.
func (s subjects) deadOf(subject string) string {
	if name, ok := s.queueOf(subject); ok {
		return s.dead + name
	}
	return s.dead + "_" // no queue has this name
}

// addressable reports whether a stored subject can be requested. A hostile client can store a subject with a wildcard,
// which would stand for everything else there.
func addressable(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if token == "*" || token == ">" {
			return false
		}
	}
	return true
}
