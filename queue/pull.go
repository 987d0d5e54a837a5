package queue

import (
	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// NotPulled is the error of a request for jobs of a queue that is not a pull queue.
func NotPulled(name string) error {
	return invalid.Errorf(
		"queue", name, "is not a pull queue: its jobs go to drainers; set pull to true to have them asked for",
	)
}

// PullParent is the error of a Put of a pull queue that has children.
func (s *Spec) PullParent(children int) error {
	return invalid.Errorf(
		"pull", "", "is true, and %s is the parent of %d other queues; a pull queue can be neither child nor parent",
		s.Name, children,
	)
}

// PullChild is the error of a Put of a child of a pull queue.
func (s *Spec) PullChild() error {
	return invalid.Errorf(
		"name", s.Name, "would be a child of %s, which is a pull queue; those have no children", names.Parent(s.Name),
	)
}

// Cause is cause.Drainer, or what it is in a pull queue.
func (s *Spec) Cause() cause.Cause {
	if s.Pull {
		return cause.Puller
	}
	return cause.Drainer
}
