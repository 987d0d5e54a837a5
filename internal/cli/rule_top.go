package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/internal/wire"
)

type ruleTopCmd struct {
	Name string `arg:"" help:"Name of the rule."`
	output
}

// Help is shown below the flags.
func (ruleTopCmd) Help() string {
	return `By which keys is a rule asked most, and refuses most? The ingress that answers counts what it asks itself:
takes, and for jobs that are appended to it, of the last hour or less. It keeps 32 keys of any number; +ERROR is how
much a count may be too high.

Examples:
  penstock rule top otp.to
  penstock rule top otp.to -o json`
}

func (c *ruleTopCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	top, err := api.Top(r.ctx, c.Name)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, top)
	}
	_, err = fmt.Fprint(r.Out, topText(&top))
	return err
}

func topText(v *wire.Top) string {
	switch {
	case v.Uncounted:
		return "this ingress counts the keys of as many other rules as it can\n"
	case v.Since == nil:
		return "nothing was counted\n"
	}
	text := "since " + instant(v.Since)
	if v.Until != nil {
		text += " until " + instant(v.Until)
	}
	return text + "\n\n" + countsText("ASKED", &v.Asked) + "\n" + countsText("REFUSED", &v.Refused)
}

func countsText(what string, c *wire.KeyCounts) string {
	if c.Count == 0 {
		return strings.ToLower(what) + ": never\n"
	}
	t := table{header: []string{what, "+ERROR", "KEY"}, right: map[int]bool{0: true, 1: true}}
	for _, k := range c.Keys {
		t.add(humanize.Comma(k.Count), strconv.FormatInt(k.Error, 10), plain(k.Key))
	}
	t.add(humanize.Comma(c.Count), "", "in all")
	return t.String()
}
