package queuecmd

import (
	"context"

	"github.com/penstock/penstock/internal/cli/changes"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type logCmd struct {
	Name string `arg:"" help:"Name of the queue, which may be deleted."`
	changes.History
}

func (logCmd) Help() string {
	return changes.HistoryHelp + `
All changes are recorded except those by producers and drainers. Secrets are masked: "deliver: *** ->
***" means that a secret changed. The fields before and after are known for the last 50 specs.

Examples:
  penstock queue log email
  penstock queue log email --what purged,replayed,forgotten --since 'yesterday 00:00'
  penstock queue log email -o json`
}

func (c *logCmd) Run(r *command.Run, api *client.Client) error {
	page := func(ctx context.Context, q client.ChangesQuery) (wire.Record[wire.Change], error) {
		return api.Changes(ctx, c.Name, q)
	}
	return changes.ShowHistory(r, &c.History, page, func(c *wire.Change) (*wire.Done, []string, error) {
		texts, err := changedFields(c)
		return &c.Done, texts, err
	})
}

// changedFields returns the fields that a change of a queue changed.
func changedFields(c *wire.Change) ([]string, error) {
	switch {
	case c.After == nil:
		return nil, nil
	case c.Before == nil:
		return []string{"rate: " + c.After.Rate.String()}, nil
	}
	fields, err := changes.Between(c.Before, c.After)
	return changes.Texts(changes.WithSecret(fields, true)), err
}
