package deferred

import (
	"strings"

	"github.com/penstock/penstock/queue/names"
)

// subjects are those of one prefix. A queue's name is valid before it gets here, and
// has nothing in it that means anything to NATS but the dot of a child, so it can
// become no other queue's subject, no wildcard, and nothing outside the prefix.
type subjects struct{ deferred, dead string }

func newSubjects(prefix string) subjects {
	return subjects{deferred: prefix + ".deferred.", dead: prefix + ".dead."}
}

// of is where a queue's deferred jobs are put.
func (s subjects) of(queue string) string { return s.deferred + queue }

// queueOf is the queue that a subject is of, if it is of one.
func (s subjects) queueOf(subject string) (name string, ok bool) {
	name, ok = strings.CutPrefix(subject, s.deferred)
	return name, ok && names.Validate(name) == nil
}

// deadOf is where the dead letters of a subject are put.
func (s subjects) deadOf(subject string) string {
	if name, ok := s.queueOf(subject); ok {
		return s.dead + name
	}
	return s.dead + "_" // no queue has this name
}

// addressable reports whether a subject that is stored can be asked for. One with a
// wildcard in it can be stored, by a client that means harm, and would stand for
// everything else there.
func addressable(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if token == "*" || token == ">" {
			return false
		}
	}
	return true
}
