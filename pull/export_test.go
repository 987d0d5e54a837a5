package pull

import "github.com/penstock/penstock/queue"

// InGroup returns the spec by which a dispatcher judges how many jobs of a queue are useful at once.
func InGroup(d *Dispatcher, spec *queue.Spec) *queue.Spec { return d.inGroup(spec) }
