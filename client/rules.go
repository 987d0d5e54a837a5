package client

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Take is a request to a rule.
type Take struct {
	Key  string `json:"key,omitempty"`
	Cost int64  `json:"cost,omitempty"` // 0 is 1; for a refund with a receipt, 0 is all of it
	// Costs is the cost for a rule with a unit, in place of Cost: {"tokens": 1800}.
	Costs map[string]int64 `json:"costs,omitempty"`
	// Wait is how long a take may wait while the rule refuses it, at most 60 s.
	Wait time.Duration `json:"-"`
	// Lease is the place that a concurrency rule gave. Taking it again renews it; a refund gives it back.
	Lease string `json:"lease,omitempty"`
	// Receipt of a take allows to refund it, for callers who may not refund the takes of others.
	Receipt string `json:"receipt,omitempty"`
}

// RetryAfter returns when the same cost would pass if nobody else takes, 0 if it does now.
func (t *Taken) RetryAfter() time.Duration { return milliseconds(t.RetryAfterMS) }

// ResetAfter returns the time until all counts are forgotten.
func (t *Taken) ResetAfter() time.Duration { return milliseconds(t.ResetAfterMS) }

// Take asks a rule to allow something, and counts it if the rule does. A refusal by the rule is not an error: see
// Allowed. A take is never repeated: after an *Unreachable, or a *Problem with reason outcome_unknown, it may have been
// counted.
func (c *Client) Take(ctx context.Context, rule string, take Take) (*Taken, error) {
	taken, _, err := c.take(ctx, rule, "take", take)
	return taken, err
}

// Peek returns what a take would be answered. It counts nothing.
func (c *Client) Peek(ctx context.Context, rule string, take Take) (*Taken, error) {
	taken, _, err := c.take(ctx, rule, "peek", take)
	return taken, err
}

// Refund gives back what was taken. It is never repeated.
func (c *Client) Refund(ctx context.Context, rule string, take Take) (*Taken, error) {
	taken, _, err := c.take(ctx, rule, "refund", take)
	return taken, err
}

// Correct charges the actual cost of a take, in the unit of the rule, in place of its first cost. The id is Taken.Take
// of its answer, and key the key of the take. Only the first correction counts, so it is repeated if it gets no answer.
func (c *Client) Correct(
	ctx context.Context, rule, key, id string, actual map[string]int64,
) (*Taken, error) {
	if err := checkCosts("actual", actual); err != nil {
		return nil, err
	}
	body := struct {
		Key    string           `json:"key,omitempty"`
		Take   string           `json:"take"`
		Actual map[string]int64 `json:"actual"`
	}{key, id, actual}
	taken := &Taken{}
	_, err := c.Do(ctx, &Request{
		Method: http.MethodPost, Path: Path("v1", "rules", rule, "correct"), Body: body, Repeatable: true,
	}, taken)
	if err != nil {
		return nil, err
	}
	return taken, nil
}

func (c *Client) take(ctx context.Context, rule, operation string, take Take) (*Taken, http.Header, error) {
	if err := checkCosts("costs", take.Costs); err != nil {
		return nil, nil, err
	}
	body := struct {
		Take
		Wait string `json:"wait,omitempty"`
	}{Take: take}
	if take.Wait > 0 {
		body.Wait = take.Wait.String()
	}
	r := &Request{
		Method: http.MethodPost, Path: Path("v1", "rules", rule, operation), Body: body, Wait: take.Wait,
		Repeatable: operation == "peek",
	}
	taken := &Taken{}
	head, err := c.Do(ctx, r, taken)
	var p *Problem
	switch {
	case err == nil:
		return taken, head, nil
	case errors.As(err, &p) && p.Reason == ReasonLimitReached:
		return &Taken{
			Limit: p.Limit, Remaining: p.Remaining, RetryAfterMS: p.RetryAfterMS, ResetAfterMS: p.ResetAfterMS, Away: p.Away,
			MaxKeys: p.MaxKeys,
		}, head, nil
	}
	return nil, head, err
}
