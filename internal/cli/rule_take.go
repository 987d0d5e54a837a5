package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// ruleAsk is what all questions to a rule are made of.
type ruleAsk struct {
	Name  string `arg:"" help:"Name of the rule."`
	Key   string `arg:"" optional:"" help:"Key to count under. A rule that counts all as one needs none."`
	Cost  *int64 `help:"How much; 1 unless it is given." placeholder:"N"`
	Lease string `help:"Name of a place, of concurrency. Taken again it is renewed."`
	output

	wait    time.Duration
	receipt string
}

// ask asks, prints the answer, and ends with ExitRefused if it is a refusal.
func (c *ruleAsk) ask(r *run, op rules.TakeOp) error {
	cost := int64(0) // the server's default
	if c.Cost != nil {
		if cost = *c.Cost; cost < 1 {
			return usage(fmt.Errorf("--cost %d: must be at least 1", cost))
		}
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	t, err := api.Take(r.ctx, c.Name, op, wire.Take{
		Key: c.Key, Cost: cost, Lease: c.Lease, Receipt: c.receipt, Wait: unit.Duration(c.wait),
	})
	if err != nil {
		return err
	}
	if c.json() {
		err = printJSON(r.Out, t)
	} else {
		err = printTaken(r, &t)
	}
	if err == nil && !t.Allowed && (op == rules.TakeNow || op == rules.TakePeek) {
		return told(ExitRefused)
	}
	return err
}

func printTaken(r *run, t *wire.Taken) error {
	said := "allowed"
	switch {
	case t.Shadowed:
		said = "allowed: the rule only counts, and would refuse it"
	case !t.Allowed:
		said = "refused"
	}
	if t.MaxKeys > 0 {
		said += fmt.Sprintf(": it holds as many keys as it may, %d; raise its max_keys, or reset it", t.MaxKeys)
	}
	if t.Away != "" {
		said += ": the store cannot be asked, and the rule's away is " + t.Away
	}
	return facts(r.Out,
		"answer", said,
		"remaining", fmt.Sprintf("%d of %d", t.Remaining, t.Limit),
		"retry after", span(t.RetryAfterMS),
		"fresh after", span(t.ResetAfterMS),
		"lease", t.Lease,
		"receipt", t.Receipt,
	)
}

// span is empty for none.
func span(ms int64) string {
	if ms == 0 {
		return ""
	}
	return short(time.Duration(ms) * time.Millisecond)
}

type ruleTakeCmd struct {
	ruleAsk
	Wait time.Duration `placeholder:"DURATION"`
}

// LongHelp is the help that is too long for the tags.
func (ruleTakeCmd) LongHelp() map[string]string {
	return map[string]string{
		"wait": "How long to wait, up to 60s, for what the rule refuses now. Those who wait are let through in the " +
			"order in which they came.",
	}
}

// Help is shown below the flags.
func (ruleTakeCmd) Help() string {
	return `The exit code is 0 if the rule allows it, and 3 if it refuses; then nothing was taken.

Examples:
  penstock rule take otp.per-address ann@example.com
  penstock rule take api.calls tenant-7 --cost 10 -o json
  penstock rule take api.calls tenant-7 --wait 10s && curl https://api.example.com/v1/send
  penstock rule take import.slots tenant-7 --lease "$HOSTNAME"`
}

func (c *ruleTakeCmd) Run(r *run) error {
	if c.Wait < 0 {
		return usage(fmt.Errorf("--wait %v: must not be below 0", c.Wait))
	}
	c.wait = c.Wait
	return c.ask(r, rules.TakeNow)
}

type rulePeekCmd struct{ ruleAsk }

// Help is shown below the flags.
func (rulePeekCmd) Help() string {
	return `Exit codes as those of take.

Examples:
  penstock rule peek otp.per-address ann@example.com`
}

func (c *rulePeekCmd) Run(r *run) error { return c.ask(r, rules.TakePeek) }

type ruleRefundCmd struct {
	ruleAsk
	Receipt string `placeholder:"RECEIPT"`
}

// LongHelp is the help that is too long for the tags.
func (ruleRefundCmd) LongHelp() map[string]string {
	return map[string]string{
		"receipt": "Receipt that the take answered: gives back all of that take, or --cost of it. Needed with the role " +
			"produce alone.",
	}
}

// Help is shown below the flags.
func (ruleRefundCmd) Help() string {
	return `Never more than was taken comes back. Of concurrency the place is freed that --lease names.
With the role produce alone you give back your own takes: each once, by its receipt, within 5
minutes, at the server that answered it.

Examples:
  penstock rule refund api.calls tenant-7 --receipt 2kTlBgAAAAAAAAAD...
  penstock rule refund api.calls tenant-7 --cost 10
  penstock rule refund import.slots tenant-7 --lease "$HOSTNAME"`
}

func (c *ruleRefundCmd) Run(r *run) error {
	c.receipt = c.Receipt
	return c.ask(r, rules.TakeBack)
}

type ruleResetCmd struct {
	Name string `arg:"" help:"Name of the rule."`
	Key  string `arg:"" optional:"" help:"Key to forget. A rule that counts all as one needs none."`
	All  bool   `help:"Forget all keys."`
	Yes  bool   `help:"Needed with --all." short:"y"`
	output
}

// Help is shown below the flags.
func (ruleResetCmd) Help() string {
	return `Examples:
  penstock rule reset otp.per-address ann@example.com
  penstock rule reset otp.per-address --all --yes`
}

func (c *ruleResetCmd) Run(r *run) error {
	if !c.All {
		ask := ruleAsk{Name: c.Name, Key: c.Key, output: c.output}
		return ask.ask(r, rules.TakeAnew)
	}
	switch {
	case c.Key != "":
		return usage(errors.New("a key and --all: give one of them"))
	case !c.Yes:
		return usage(fmt.Errorf("rule reset %s --all forgets what was taken under all keys; give --yes as well", c.Name))
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	if err := api.ResetRule(r.ctx, c.Name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.Out, "%s: all is forgotten that was taken\n", c.Name)
	return err
}
