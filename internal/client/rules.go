package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/penstock/penstock/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/rules"
)

// Rules returns all rules, by name.
func (c *Client) Rules(ctx context.Context) ([]wire.Rule, error) {
	all := []wire.Rule{}
	for after := ""; ; {
		answer, err := c.rules(ctx, after)
		if err != nil {
			return nil, err
		}
		all = append(all, answer.Rules...)
		if answer.Next == "" || answer.Next == after {
			return all, nil
		}
		after = answer.Next
	}
}

// RuleNames returns one page of rule names in order, from the first name that starts with begun.
func (c *Client) RuleNames(ctx context.Context, begun string) ([]string, error) {
	answer, err := c.rules(ctx, before(begun))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(answer.Rules))
	for i := range answer.Rules {
		names = append(names, answer.Rules[i].Name)
	}
	return names, nil
}

func (c *Client) rules(ctx context.Context, after string) (answer wire.Rules, err error) {
	query := url.Values{"limit": {strconv.Itoa(page)}}
	if after != "" {
		query.Set("after", after)
	}
	_, err = c.do(ctx, http.MethodGet, "/v1/rules?"+query.Encode(), nil, nil, &answer)
	return answer, err
}

// Rule returns a rule, or a *Problem with reason unknown_rule.
func (c *Client) Rule(ctx context.Context, name string) (rule wire.Rule, err error) {
	_, err = c.do(ctx, http.MethodGet, rulePath(name), nil, nil, &rule)
	return rule, err
}

// PutRule creates or updates a rule, given as JSON, if it is at the given revision, Always or Absent. Otherwise it
// returns a *Problem with reason revision_mismatch.
func (c *Client) PutRule(
	ctx context.Context, name string, spec json.RawMessage, revision int64,
) (rule wire.Rule, err error) {
	_, err = c.do(ctx, http.MethodPut, rulePath(name), condition(revision), spec, &rule)
	return rule, err
}

// DeleteRule deletes a rule and what was taken from it. A rule that queues use is refused: a *Problem with reason
// rule_in_use. With force it is deleted if those queues are all in other groups.
func (c *Client) DeleteRule(ctx context.Context, name string, revision int64, force bool) error {
	path := rulePath(name)
	if force {
		path += "?force=true"
	}
	_, err := c.do(ctx, http.MethodDelete, path, condition(revision), nil, nil)
	return err
}

// ResetRule forgets what was taken from a rule, under all keys.
func (c *Client) ResetRule(ctx context.Context, name string) error {
	all := struct {
		All bool `json:"all"`
	}{true}
	_, err := c.do(ctx, http.MethodPost, rulePath(name, rules.TakeAnew.String()), nil, all, nil)
	return err
}

// Take sends one take. A refusal by the rule is not an error. After a *Problem with reason outcome_unknown, or an
// *Unreachable, something may have been taken, and a repetition takes again.
func (c *Client) Take(ctx context.Context, name string, op rules.TakeOp, take wire.Take) (t wire.Taken, err error) {
	_, err = c.do(ctx, http.MethodPost, rulePath(name, op.String()), nil, take, &t)
	var p *Problem
	if errors.As(err, &p) && p.Reason == "limit_reached" {
		return wire.Taken{
			Limit: p.Limit, Remaining: p.Remaining, RetryAfterMS: p.RetryAfterMS, ResetAfterMS: p.ResetAfterMS, Away: p.Away,
		}, nil
	}
	return t, err
}

// TakeAll sends up to rules.MaxTakes takes and returns their answers in the same order, each with its own Status.
func (c *Client) TakeAll(ctx context.Context, name string, op rules.TakeOp, takes []wire.Take) ([]wire.Taken, error) {
	var answer wire.AllTaken
	_, err := c.do(ctx, http.MethodPost, rulePath(name, op.String()), nil, wire.Takes{Takes: takes}, &answer)
	return answer.Takes, err
}

func rulePath(name string, more ...string) string {
	return client.Path(append([]string{"v1", "rules", name}, more...)...)
}

// Top returns the most frequent keys of a rule.
func (c *Client) Top(ctx context.Context, name string) (top wire.Top, err error) {
	_, err = c.do(ctx, http.MethodGet, rulePath(name, "top"), nil, nil, &top)
	return top, err
}
