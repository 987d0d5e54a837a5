package cli

import (
	"context"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type ruleLogCmd struct {
	Name string `arg:"" help:"Name of the rule, also of one that was removed."`
	recordFlags
}

// Help is shown below the flags.
func (ruleLogCmd) Help() string {
	return recordHelp + `
What is taken, given back, or forgotten under single keys is not recorded. What a rule was before and
after is told of the last 50, without overrides.

Examples:
  penstock rule log otp.to
  penstock rule log otp.to --what changed -o json
  penstock rule log otp.to --since 07:00`
}

func (c *ruleLogCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context, q client.ChangesQuery) (wire.Record[wire.RuleChange], error) {
		return api.RuleChanges(ctx, c.Name, q)
	}
	record, err := readRecord(r, &c.recordFlags, read)
	if err != nil {
		return err
	}
	return showRecord(r, &c.recordFlags, &record, func(c *wire.RuleChange) (*wire.Done, string, error) {
		var parts []string
		if c.Before != nil && c.After != nil {
			before, err := tree(c.Before)
			if err != nil {
				return nil, "", err
			}
			after, err := tree(c.After)
			if err != nil {
				return nil, "", err
			}
			if parts = fieldTexts(changes(before, after)); len(parts) == 0 {
				parts = []string{"overrides"}
			}
		} else if c.After != nil {
			parts = append(parts, string(c.After.Algorithm)+": "+boundOf(c.After.Bound))
		}
		return &c.Done, how(&c.Done, parts), nil
	})
}
