package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/leaky"
)

// embeddedForgets is what the embedded engine may lose of what was taken when its process is killed.
const embeddedForgets = time.Second

// rules proves rules.
func (c *proveCmd) rules(r *run, self string) error {
	o := prove.RulesOptions{
		URLs: make([]string, c.processes(c.Ingresses, 3)), Rate: c.rate(leaky.PerSecond(20)), Keys: c.Keys,
		Callers: c.Callers, Duration: c.Duration,
		Faults: prove.Faults(c.Faults), Every: c.Every, Delta: c.Delta, Log: c.log(r),
	}
	if c.Redis == "" {
		o.Forgets = embeddedForgets
	}
	if err := o.Validate(); err != nil {
		return usage(fmt.Errorf("--%w", err))
	}
	t, err := c.target(r, self, len(o.URLs))
	if err != nil {
		return err
	}
	defer t.end()
	o.Store, o.Ingress, o.URLs = t.store, t.ingress, t.urls
	s := newTicker(r.Err)
	o.Progress = func(elapsed time.Duration, asked, allowed int64, marks []prove.Mark) {
		s.show(elapsed, fmt.Sprintf(
			"%s of %s  %d asked, %d allowed, %d faults", short(elapsed), short(c.Duration), asked, allowed, len(marks),
		))
	}
	report, err := prove.RunRules(r.ctx, o)
	s.end()
	if err != nil {
		return err
	}
	return c.printRules(r, report)
}

func (c *proveCmd) printRules(r *run, p *prove.RulesReport) error {
	if c.json() {
		if err := printJSON(r.Out, p); err != nil {
			return err
		}
		return heldOrNot(p.Held)
	}
	what := "embedded, 1 process"
	if c.Redis != "" {
		what = fmt.Sprintf("Redis, %d ingresses", p.Ingresses)
	}
	err := facts(r.Out,
		"installation", fmt.Sprintf("%s, faults %s (%d injected), %s", what, p.Faults, p.Injected, p.Duration),
		"asked", fmt.Sprintf("each rule under %d keys by %d callers; %s allowed under each", p.Keys, p.Callers, p.Rate),
	)
	if err != nil {
		return err
	}
	var window time.Duration
	if len(p.Rules) > 0 {
		window = p.Rules[0].Window
	}
	t := table{
		header: []string{
			"RULE", "ASKED", "ALLOWED", "REFUSED", "UNKNOWN", "UNDECIDED", "MOST IN " + strings.ToUpper(short(window)), "MAY",
			"LAW",
		},
		right: map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true},
	}
	for _, v := range p.Rules {
		held := "held"
		switch {
		case !v.Held:
			held = "broken"
		case len(v.Idle) > 0:
			held = "not proved"
		}
		t.add(
			v.Algorithm, fmt.Sprint(v.Asked), fmt.Sprint(v.Allowed), fmt.Sprint(v.Refused), fmt.Sprint(v.Unknown),
			fmt.Sprint(v.Undecided), fmt.Sprint(v.Most), fmt.Sprint(v.Law), held,
		)
	}
	_, _ = fmt.Fprintf(r.Out, "\n%s\n", t.String())
	return verdict(r, p.Held, p.Broken)
}
