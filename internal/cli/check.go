package cli

import (
	"fmt"
	"path/filepath"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/push"
)

type checkCmd struct {
	Data string `help:"Directory of the embedded store." default:"./penstock-data" placeholder:"DIR"`
}

// Help is shown below the flags.
func (checkCmd) Help() string {
	return `Checks every page and record of an embedded store, compares every payload with its fingerprint, and
names the first fault. It changes nothing. Stop "penstock up" first, or check a copy: only one process
can use a store. A damaged store cannot be repaired: restore a backup.

Example:
  penstock check --data /var/lib/penstock

Exit codes: 0 the store is sound; 1 it is damaged, in use or not a store; 2 the command line cannot be
understood, or the directory has no store.`
}

func (c *checkCmd) Run(r *run) error {
	var bar *progress
	found, err := store.Check(r.ctx, c.Data, func(done, all int64) {
		if bar == nil {
			bar = newProgress(r.Err, int(all))
			bar.what, bar.unit = "checking", "pages"
		}
		bar.show(push.Count{Read: int(done)})
	})
	if bar != nil {
		bar.end(push.Count{Read: int(found.Pages)})
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.Out, "%s is sound: %s pages of %d bytes, %s records, %s jobs\n",
		filepath.Join(c.Data, store.FileName), num(found.Pages), found.PageSize, num(found.Records), num(found.Jobs))
	if found.OneMeta {
		r.say("one of its two meta pages is damaged, as after a power cut: the store is as of the commit before; " +
			"penstock up goes on from there")
	}
	return err
}
