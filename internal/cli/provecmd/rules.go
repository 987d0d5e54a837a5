package provecmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/leaky"
)

// embeddedForgets is how much of the time before a kill the embedded engine may forget.
const embeddedForgets = time.Second

// rules runs prove --rules.
func (c *Cmd) rules(r *command.Run, self string) error {
	o := prove.RulesOptions{
		URLs: make([]string, c.processes(c.Ingresses, 3)), Rate: c.rate(leaky.PerSecond(20)), Keys: c.Keys,
		Callers: c.Callers, Duration: c.Duration,
		Faults: prove.Faults(c.Faults), Every: c.Every, Delta: c.Delta, Log: c.log(r),
	}
	if c.Redis == "" {
		o.Forgets = embeddedForgets
	}
	if err := o.Validate(); err != nil {
		return command.Usage(fmt.Errorf("--%w", err))
	}
	t, err := c.target(r, self, len(o.URLs))
	if err != nil {
		return err
	}
	defer t.end()
	o.Store, o.Ingress, o.URLs = t.store, c.upgrading(t.ingress), t.urls
	s := newTicker(r.Err, c.Duration)
	o.Progress = func(elapsed time.Duration, asked, allowed int64, marks []prove.Mark) {
		s.show(elapsed, fmt.Sprintf("%d asked, %d allowed, %d faults", asked, allowed, len(marks)))
	}
	report, err := prove.RunRules(r.Ctx, o)
	s.end()
	if err != nil {
		return err
	}
	return c.printRules(r, report)
}

func (c *Cmd) printRules(r *command.Run, p *prove.RulesReport) error {
	if c.JSON() {
		return printReport(r, p, p.Held)
	}
	what := "embedded, 1 process"
	if c.Redis != "" {
		what = fmt.Sprintf("Redis, %d ingresses", p.Ingresses)
	}
	_, err := fmt.Fprint(r.Out, command.Facts(
		"installation", fmt.Sprintf("%s, faults %s (%d injected), %s", what, p.Faults, p.Injected, p.Duration),
		"requests", fmt.Sprintf("%d keys and %d callers per rule; each key is allowed %s", p.Keys, p.Callers, p.Rate),
	))
	if err != nil {
		return err
	}
	var window time.Duration
	if len(p.Rules) > 0 {
		window = p.Rules[0].Window
	}
	t := command.NewTable(
		"RULE", ">REQUESTS", ">ALLOWED", ">REFUSED", ">UNKNOWN", ">UNDECIDED",
		">MOST IN "+strings.ToUpper(show.Duration(window)),
		">LIMIT", "LAW",
	)
	for _, v := range p.Rules {
		held := "held"
		switch {
		case !v.Held:
			held = "broken"
		case len(v.Idle) > 0:
			held = "not proved"
		}
		t.Row(
			v.Algorithm, fmt.Sprint(v.Asked), fmt.Sprint(v.Allowed), fmt.Sprint(v.Refused), fmt.Sprint(v.Unknown),
			fmt.Sprint(v.Undecided), fmt.Sprint(v.Most), fmt.Sprint(v.Law), held,
		)
	}
	_, _ = fmt.Fprintf(r.Out, "\n%s\n", t.String())
	return verdict(r, p.Held, p.Broken)
}
