package queue

import (
	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// NotPulled returns the error of a request for jobs of a queue that is not a pull queue.
func NotPulled(name string) error {
	return invalid.Errorf(
		"queue", name, "is not a pull queue: its jobs go to drainers; set pull to true so that workers can ask for them",
	)
}

// PullParent returns the error of a Put that would make a queue with children a pull queue.
func (s *Spec) PullParent(children int) error {
	return invalid.Errorf(
		"pull", "", "is true, and %s is the parent of %d other queues; drainers deliver a parent's own jobs, so make a"+
			" child such as %s.calls the pull queue instead", s.Name, children, s.Name,
	)
}

// PullChild returns the error of a Put that would give a pull queue a child.
func (s *Spec) PullChild() error {
	return invalid.Errorf(
		"name", s.Name, "would be a child of %s, which is a pull queue; drainers deliver a parent's own jobs, so set"+
			" pull of %[1]s to false, and make a child the pull queue", names.Parent(s.Name),
	)
}

// Cause returns cause.Drainer, or cause.Puller for a pull queue.
func (s *Spec) Cause() cause.Cause {
	if s.Pull {
		return cause.Puller
	}
	return cause.Drainer
}

// Proxied reports whether ingresses pass calls on to the queue's target, each call in its turn.
func (s *Spec) Proxied() bool { return s.Pull && len(s.Deliver) > 0 }
