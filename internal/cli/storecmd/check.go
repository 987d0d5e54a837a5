package storecmd

import (
	"fmt"
	"path/filepath"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
)

// CheckCmd is penstock check.
type CheckCmd struct {
	Data string `help:"Directory of the embedded store." default:"./penstock-data" placeholder:"DIR"`
}

// Help implements kong.HelpProvider.
func (CheckCmd) Help() string {
	return `Checks every page, record and payload of an embedded store, and names the first fault. It changes
nothing. Stop "penstock up" first, or check a copy: only one process can use a store. A damaged store
cannot be repaired: restore a backup.

Example:
  penstock check --data /var/lib/penstock

Exit codes: 0 the store is sound; 1 it is damaged, in use or not a store; 2 invalid command line, or no
store in the directory.`
}

// Run runs the command.
func (c *CheckCmd) Run(r *command.Run) error {
	var bar *command.Progress
	found, err := store.Check(r.Ctx, c.Data, func(done, all int64) {
		if bar == nil {
			bar = command.NewProgress(r.Err, "checking", "pages", all)
		}
		bar.Show(done)
	})
	if bar != nil {
		bar.End()
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.Out, "%s is sound: %s pages of %d bytes, %s records, %s jobs\n",
		filepath.Join(c.Data, store.FileName), show.Int(found.Pages), found.PageSize, show.Int(found.Records),
		show.Int(found.Jobs))
	if found.OneMeta {
		r.Say("one of its two meta pages is damaged, as after a power cut: the store is as of the commit before it, " +
			"and \"penstock up\" continues from there")
	}
	return err
}
