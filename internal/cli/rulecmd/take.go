package rulecmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// request holds the common flags of requests to a rule.
type request struct {
	Name  string `arg:"" help:"Name of the rule."`
	Key   string `arg:"" optional:"" help:"Key to count under. Not needed for a rule that counts all as one."`
	Cost  *cost  `help:"Cost of the request; with a unit, such as tokens=1800. Default: 1." placeholder:"N|UNIT=N"`
	Lease string `help:"Name of a place, with concurrency. Taking it again renews it."`
	command.Output

	wait    time.Duration
	receipt string
}

// cost is a cost without a unit, or in one.
type cost struct {
	unit   string
	amount int64
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *cost) UnmarshalText(text []byte) (err error) {
	unit, amount, named := strings.Cut(string(text), "=")
	if !named {
		unit, amount = "", unit
	}
	if c.amount, err = strconv.ParseInt(amount, 10, 64); err != nil || named && unit == "" {
		return fmt.Errorf("%q is not a cost such as 10 or tokens=1800", text)
	}
	c.unit = unit
	return nil
}

// inUnit returns the cost by its unit; nil without one.
func (c *cost) inUnit() map[string]int64 {
	if c == nil || c.unit == "" {
		return nil
	}
	return map[string]int64{c.unit: c.amount}
}

// send sends the request and prints the answer. A refusal is exit code 3.
func (c *request) send(r *command.Run, api *client.Client, op rules.TakeOp) error {
	take := wire.Take{
		Key: c.Key, Costs: c.Cost.inUnit(), Lease: c.Lease, Receipt: c.receipt, Wait: unit.Duration(c.wait),
	}
	if c.Cost != nil && take.Costs == nil {
		if take.Cost = c.Cost.amount; take.Cost < 1 {
			return command.Usage(fmt.Errorf("--cost %d: must be at least 1", take.Cost))
		}
	}
	t, err := api.Take(r.Ctx, c.Name, op, take)
	if err != nil {
		return err
	}
	err = c.Print(r, t, func() string { return takenText(&t) })
	if err == nil && !t.Allowed && (op == rules.TakeNow || op == rules.TakePeek) {
		return command.Quiet(command.ExitRefused)
	}
	return err
}

func takenText(t *wire.Taken) string {
	answer := "allowed"
	switch {
	case t.Shadowed:
		answer = "allowed: the rule only counts, but would refuse this"
	case !t.Allowed:
		answer = "refused"
	}
	if t.MaxKeys > 0 {
		answer += fmt.Sprintf(": the rule has its maximum of %d keys; raise max_keys or reset it", t.MaxKeys)
	}
	if t.Away != "" {
		answer += ": the store cannot be reached, and the rule's away is " + t.Away
	}
	return command.Facts(
		"answer", answer,
		"remaining", fmt.Sprintf("%d of %d", t.Remaining, t.Limit),
		"retry after", millisText(t.RetryAfterMS),
		"reset after", millisText(t.ResetAfterMS),
		"lease", t.Lease,
		"receipt", t.Receipt,
		"take", t.Take,
	)
}

// millisText returns a duration; empty for 0.
func millisText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return show.Duration(time.Duration(ms) * time.Millisecond)
}

type takeCmd struct {
	request
	Wait time.Duration `placeholder:"DURATION"`
}

func (takeCmd) LongHelp() map[string]string {
	return map[string]string{
		"wait": "Time to wait, up to 60s, if the rule refuses now. Waiting requests are served in order.",
	}
}

func (takeCmd) Help() string {
	return `Exit code 0 means allowed; 3 means refused, and nothing was taken.

Examples:
  penstock rule take otp.per-address ann@example.com
  penstock rule take api.calls tenant-7 --cost 10 -o json
  penstock rule take llm.tokens tenant-7 --cost tokens=1800
  penstock rule take api.calls tenant-7 --wait 10s && curl https://api.example.com/v1/send
  penstock rule take import.slots tenant-7 --lease "$HOSTNAME"`
}

func (c *takeCmd) Run(r *command.Run, api *client.Client) error {
	if c.Wait < 0 {
		return command.Usage(fmt.Errorf("--wait %v: must not be negative", c.Wait))
	}
	c.wait = c.Wait
	return c.send(r, api, rules.TakeNow)
}

type peekCmd struct{ request }

func (peekCmd) Help() string {
	return `Exit codes are those of take.

Examples:
  penstock rule peek otp.per-address ann@example.com`
}

func (c *peekCmd) Run(r *command.Run, api *client.Client) error {
	return c.send(r, api, rules.TakePeek)
}

type correctCmd struct {
	Name   string `arg:"" help:"Name of a rule with a unit."`
	Key    string `arg:"" optional:"" help:"Key of the take. Not needed for a rule that counts all as one."`
	Take   string `help:"Id of the take, from its answer." placeholder:"ID" required:""`
	Actual cost   `help:"Actual cost, such as tokens=1432." placeholder:"UNIT=N" required:""`
	command.Output
}

func (correctCmd) Help() string {
	return `Charges what a take cost in fact, in place of its cost. A lower cost never makes more credit than the
burst; a higher cost delays later takes. A cost of 0 gives the take back. Only the first correction
counts, within 15 minutes of the take.

Examples:
  penstock rule correct llm.tokens tenant-7 --take 2VUR4QZL6DWXIUY7ZBWWQ4DBVQ --actual tokens=1432`
}

func (c *correctCmd) Run(r *command.Run, api *client.Client) error {
	if c.Actual.unit == "" {
		return command.Usage(fmt.Errorf("--actual %d: needs a unit, such as tokens=%d", c.Actual.amount, c.Actual.amount))
	}
	t, err := api.Take(r.Ctx, c.Name, rules.TakeCorrect, wire.Take{Key: c.Key, Take: c.Take, Actual: c.Actual.inUnit()})
	if err != nil {
		return err
	}
	return c.Print(r, t, func() string { return takenText(&t) })
}

type refundCmd struct {
	request
	Receipt string `placeholder:"RECEIPT"`
}

func (refundCmd) LongHelp() map[string]string {
	return map[string]string{
		"receipt": "Receipt of the take: gives back all of it, or --cost of it. Required with only the role produce.",
	}
}

func (refundCmd) Help() string {
	return `Never gives back more than was taken. With concurrency it frees the place that --lease names.
With only the role produce you can give back your own takes: each once, by its receipt, within 5
minutes, at the server that answered it.

Examples:
  penstock rule refund api.calls tenant-7 --receipt 2kTlBgAAAAAAAAAD...
  penstock rule refund api.calls tenant-7 --cost 10
  penstock rule refund import.slots tenant-7 --lease "$HOSTNAME"`
}

func (c *refundCmd) Run(r *command.Run, api *client.Client) error {
	c.receipt = c.Receipt
	return c.send(r, api, rules.TakeBack)
}

type resetCmd struct {
	Name string `arg:"" help:"Name of the rule."`
	Key  string `arg:"" optional:"" help:"Key to forget. Not needed for a rule that counts all as one."`
	All  bool   `help:"Forget all keys."`
	Yes  bool   `help:"Confirm --all." short:"y"`
	command.Output
}

func (resetCmd) Help() string {
	return `Examples:
  penstock rule reset otp.per-address ann@example.com
  penstock rule reset otp.per-address --all --yes`
}

func (c *resetCmd) Run(r *command.Run, api *client.Client) error {
	if !c.All {
		one := request{Name: c.Name, Key: c.Key, Output: c.Output}
		return one.send(r, api, rules.TakeAnew)
	}
	switch {
	case c.Key != "":
		return command.Usage(errors.New("a key cannot be used with --all"))
	case !c.Yes:
		return command.Usage(fmt.Errorf("rule reset %s --all forgets all keys; confirm with --yes", c.Name))
	}
	if err := api.ResetRule(r.Ctx, c.Name); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.Out, "%s: all keys reset\n", c.Name)
	return err
}
