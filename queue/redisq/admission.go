package redisq

import (
	"context"
	"errors"

	"github.com/penstock/penstock/queue"
)

// PutRule implements queue.Rules.
func (e *Engine) PutRule(context.Context, queue.Rule, int64) (queue.PutResult, error) {
	return queue.PutResult{}, errors.ErrUnsupported
}

// Rule implements queue.Rules.
func (e *Engine) Rule(context.Context, string) (queue.RuleInfo, error) {
	return queue.RuleInfo{}, errors.ErrUnsupported
}

// ListRules implements queue.Rules.
func (e *Engine) ListRules(context.Context, string, int) ([]queue.RuleInfo, error) {
	return nil, errors.ErrUnsupported
}

// DeleteRule implements queue.Rules.
func (e *Engine) DeleteRule(context.Context, string, int64) error { return errors.ErrUnsupported }

// ResetRule implements queue.Rules.
func (e *Engine) ResetRule(context.Context, string) error { return errors.ErrUnsupported }

// Take implements queue.Rules.
func (e *Engine) Take(context.Context, string, []queue.Take) ([]queue.Taken, error) {
	return nil, errors.ErrUnsupported
}

// Attend implements queue.Rules.
func (e *Engine) Attend(context.Context, string) (int, error) { return 0, errors.ErrUnsupported }
