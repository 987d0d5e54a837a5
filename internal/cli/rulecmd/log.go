package rulecmd

import (
	"context"

	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type logCmd struct {
	Name string `arg:"" help:"Name of the rule, which may be deleted."`
	changes.History
}

func (logCmd) Help() string {
	return changes.HistoryHelp + `
Takes, refunds and resets of single keys are not recorded. The fields before and after, without
overrides, are known for the last 50 changes.

Examples:
  penstock rule log otp.to
  penstock rule log otp.to --what changed -o json
  penstock rule log otp.to --since 07:00`
}

func (c *logCmd) Run(r *command.Run, api *client.Client) error {
	page := func(ctx context.Context, q client.ChangesQuery) (wire.Record[wire.RuleChange], error) {
		return api.RuleChanges(ctx, c.Name, q)
	}
	return changes.ShowHistory(r, &c.History, page, func(c *wire.RuleChange) (*wire.Done, []string, error) {
		texts, err := changedFields(c)
		return &c.Done, texts, err
	})
}

// changedFields returns the fields that a change of a rule changed.
func changedFields(c *wire.RuleChange) ([]string, error) {
	switch {
	case c.After == nil:
		return nil, nil
	case c.Before == nil:
		return []string{string(c.After.Algorithm) + ": " + boundText(c.After.Bound)}, nil
	}
	fields, err := changes.Between(c.Before, c.After)
	if err != nil || len(fields) > 0 {
		return changes.Texts(fields), err
	}
	return []string{"overrides"}, nil
}
