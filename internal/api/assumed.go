package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/assign"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/ruleset"
)

// maxAssumed is the maximum number of settings that one forecast may assume.
const maxAssumed = 100

// readAssumed reads the settings that a forecast assumes, as FIELD=VALUE: the parameters set, and rate, which is short
// for set=rate=.
func readAssumed(r *http.Request) ([]string, *httpio.Problem) {
	const field, rate = "set", "rate"
	q := r.URL.Query()
	if p := httpio.Once(q, rate); p != nil {
		return nil, p
	}
	settings := q[field]
	if len(settings) > maxAssumed {
		return nil, httpio.BadField(field, "is given more than "+strconv.Itoa(maxAssumed)+" times")
	}
	for _, s := range settings {
		name, err := assign.Field(s)
		if err != nil {
			return nil, httpio.BadField(field, err.Error())
		}
		if name == rate && q.Has(rate) {
			return nil, httpio.BadField(rate, "is also in set=rate=; use only one of them")
		}
	}
	switch {
	case q.Get(rate) != "":
		settings = append([]string{rate + "=" + q.Get(rate)}, settings...)
	case q.Has(rate):
		return nil, httpio.BadField(rate, `is empty; give one such as "14/s", or "unlimited"`)
	}
	return settings, nil
}

// assumed returns the spec that settings would give to a queue, nil without settings. It refuses what a PUT by the
// caller would refuse. Targets and rules have no effect on a forecast. A refusal of one would reveal
// whether it exists, so they are checked only for callers who may change the queue.
func (h *handler) assumed(ctx context.Context, l *queue.Lineup, settings []string) (*queue.Spec, error) {
	if len(settings) == 0 {
		return nil, nil
	}
	now := shownSpec(l.Spec, l.Revision).Spec
	tree, err := assign.Tree(now)
	if err != nil {
		return nil, err
	}
	if tree, err = assign.To(tree, settings); err != nil {
		return nil, err
	}
	body, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	spec, p := h.parseSpec(body, now.Name)
	if p != nil {
		return nil, p
	}
	if may(ctx, auth.Configure, now.Name) {
		if err := h.permitted(ctx, &spec, &now, l.Spec.Deliver); err != nil {
			return nil, err
		}
	}
	if spec.Rate == now.Rate && spec.Adapt == now.Adapt && spec.Learn == now.Learn { // an adaptive rate stays where it is
		spec.Rate = l.Rate
	}
	return &spec, nil
}

// permitted checks what a PUT of a spec would check beside its form. now is the present spec with its secrets masked,
// and target the present target.
func (h *handler) permitted(ctx context.Context, spec, now *queue.Spec, target json.RawMessage) error {
	if err := h.allowedSpec(ctx, spec); err != nil {
		return err
	}
	if err := ruleset.CheckOthers(ctx, h.engine, spec); err != nil {
		return err
	}
	whole := *spec
	whole.Deliver = now.Deliver
	if whole.Equal(*spec) { // the same target
		return nil
	}
	whole.Deliver = spec.Deliver
	if secrets.Masked(spec.Deliver) {
		var err error
		if whole.Deliver, err = deliver.Unmask(spec.Deliver, target); err != nil {
			return err
		}
	}
	return h.validTarget(ctx, &whole)
}
