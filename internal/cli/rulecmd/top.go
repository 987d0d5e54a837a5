package rulecmd

import (
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type topCmd struct {
	Name string `arg:"" help:"Name of the rule."`
	command.Output
}

func (topCmd) Help() string {
	return `The answering ingress counts its own requests to the rule over the last hour or less: takes, and jobs
that are appended. It keeps 32 keys; +ERROR is how much a count may be too high.

Examples:
  penstock rule top otp.to
  penstock rule top otp.to -o json`
}

func (c *topCmd) Run(r *command.Run, api *client.Client) error {
	top, err := api.Top(r.Ctx, c.Name)
	if err != nil {
		return err
	}
	return c.Print(r, top, func() string { return topText(&top) })
}

func topText(v *wire.Top) string {
	switch {
	case v.Uncounted:
		return "not counted: this ingress already counts the keys of its maximum number of rules\n"
	case v.Since == nil:
		return "nothing was counted\n"
	}
	text := "since " + show.Instant(v.Since)
	if v.Until != nil {
		text += " until " + show.Instant(v.Until)
	}
	return text + "\n\n" + countsText("ASKED", &v.Asked) + "\n" + countsText("REFUSED", &v.Refused)
}

func countsText(what string, c *wire.KeyCounts) string {
	if c.Count == 0 {
		return strings.ToLower(what) + ": never\n"
	}
	t := command.NewTable(">"+what, ">+ERROR", "KEY")
	for _, k := range c.Keys {
		t.Row(humanize.Comma(k.Count), show.Int(k.Error), k.Key)
	}
	t.Row(humanize.Comma(c.Count), "", "total")
	return t.String()
}
