package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// TurnOptions are the options of a turn. The zero value is the default.
type TurnOptions struct {
	// Wait is the maximum wait; 0 is 30 s.
	Wait time.Duration
	// Costs are what the call will use of units that limits of the queue count, such as tokens. The default is the
	// queue's estimate.
	Costs map[string]int64
	// ReportWithin is how long the caller may take to report what the call used, from 1 s to 1 h. The turn has a place
	// in the queue until then. 0 means that the caller will not report.
	ReportWithin time.Duration
}

// Turn is a turn that has come.
type Turn struct {
	Queue  string
	Waited time.Duration // at the server
	// Costs are what was charged, by unit. It is nil without ReportWithin.
	Costs map[string]int64

	client    *Client
	id, lease string
}

// ErrTurnOver means that what a call used was reported after its turn had ended.
var ErrTurnOver = errors.New("the turn is over: what was charged stands")

// maxUnitCost is the maximum cost in a unit.
const maxUnitCost = 1_000_000_000

// checkCosts checks costs before they are sent.
func checkCosts(field string, costs map[string]int64) error {
	for _, unit := range slices.Sorted(maps.Keys(costs)) {
		if n := costs[unit]; n < 0 || n > maxUnitCost {
			return fmt.Errorf("%w: %s.%s: is %d, must be from 0 to %d", ErrInvalid, field, unit, n, maxUnitCost)
		}
	}
	return nil
}

// TurnWith waits for a turn of a pull queue as [Client.Turn] does, for a call with costs.
func (c *Client) TurnWith(ctx context.Context, queue string, o TurnOptions) (*Turn, error) {
	if err := checkCosts("costs", o.Costs); err != nil {
		return nil, err
	}
	if o.Wait == 0 {
		o.Wait = 30 * time.Second
	}
	body := struct {
		Wait         string           `json:"wait"`
		Costs        map[string]int64 `json:"costs,omitempty"`
		ReportWithin string           `json:"report_within,omitempty"`
	}{Wait: o.Wait.String(), Costs: o.Costs}
	if o.ReportWithin != 0 {
		body.ReportWithin = o.ReportWithin.String()
	}
	var turn struct {
		WaitedMS int64            `json:"waited_ms"`
		ID       string           `json:"id"`
		Lease    string           `json:"lease"`
		Costs    map[string]int64 `json:"costs"`
	}
	_, err := c.Do(ctx, &Request{
		Method: http.MethodPost, Path: queuePath(queue, "turns"), Wait: o.Wait, Repeatable: true, Body: body,
	}, &turn)
	if err != nil {
		return nil, err
	}
	return &Turn{
		Queue: queue, Waited: milliseconds(turn.WaitedMS), Costs: turn.Costs,
		client: c, id: turn.ID, lease: turn.Lease,
	}, nil
}

// ReportActual reports what the call used, by unit, which replaces what was charged, and ends the turn. Units left out
// keep their charge. Only the first report counts. An error is ErrInvalid if costs are impossible or the turn has no
// ReportWithin, ErrTurnOver, or as for other calls; then what was charged stands.
func (t *Turn) ReportActual(ctx context.Context, costs map[string]int64) error {
	if t.lease == "" {
		return fmt.Errorf("%w: actual: the turn has no ReportWithin", ErrInvalid)
	}
	if err := checkCosts("actual", costs); err != nil {
		return err
	}
	for unit := range costs {
		if _, counted := t.Costs[unit]; !counted {
			units := strings.Join(slices.Sorted(maps.Keys(t.Costs)), ", ")
			return fmt.Errorf("%w: actual.%s: no limit of %s counts this unit; it counts %s",
				ErrInvalid, unit, t.Queue, cmp.Or(units, "none"))
		}
	}
	return t.settle(ctx, costs)
}

// settle ends a turn that can be reported about.
func (t *Turn) settle(ctx context.Context, costs map[string]int64) error {
	var answer struct {
		Jobs []struct {
			Stale bool `json:"stale"`
			LeaseFailed
		} `json:"jobs"`
	}
	r := &Request{
		Method: http.MethodPost, Path: queuePath(t.Queue, "settle"), Repeatable: true,
		Body: map[string]any{"jobs": []settlement{{ID: t.id, Lease: t.lease, Outcome: "delivered", Actual: costs}}},
	}
	_, err := t.client.Do(ctx, r, &answer)
	switch {
	case err != nil:
		return err
	case len(answer.Jobs) != 1:
		return errors.New("the answer lacks the turn")
	case answer.Jobs[0].Stale:
		return ErrTurnOver
	case answer.Jobs[0].Reason != "":
		a := answer.Jobs[0].LeaseFailed
		return &Problem{Status: a.Status, Reason: a.Reason, Detail: a.Detail, RetryAfterMS: a.RetryAfterMS, ID: t.id}
	}
	return nil
}

// close ends a turn with what its call used, or without if that is nil or cannot be reported. A failure is a notice.
func (t *Turn) close(ctx context.Context, costs map[string]int64) {
	if t.lease == "" {
		return
	}
	err := t.ReportActual(ctx, costs)
	if err != nil {
		t.client.tell(Notice{Kind: NoticeSettleFailed, Queue: t.Queue, ID: t.id, Err: err})
	}
	var p *Problem
	if costs != nil && (errors.Is(err, ErrInvalid) || errors.As(err, &p) && p.Status < http.StatusInternalServerError) {
		if err := t.settle(ctx, nil); err != nil {
			t.client.tell(Notice{Kind: NoticeSettleFailed, Queue: t.Queue, ID: t.id, Err: err})
		}
	}
}
