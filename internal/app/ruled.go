package app

import (
	"context"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/queue"
)

// ruled is an engine whose rules are asked by way of an Admission, so that they say what holds while the store is away.
type ruled struct {
	queue.Engine
	admission *admission.Admission
}

// Take implements queue.Rules.
func (r ruled) Take(ctx context.Context, rule string, takes []queue.Take) ([]queue.Taken, error) {
	return r.admission.Take(ctx, rule, takes)
}
