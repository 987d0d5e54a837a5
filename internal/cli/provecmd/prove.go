// Package provecmd has the commands that judge Penstock at work: penstock demo and penstock prove.
package provecmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Cmd is penstock prove.
type Cmd struct {
	Redis      string `placeholder:"URL"`
	Init       bool   `help:"Create the store on an empty Redis."`
	Partitions int    `help:"Partitions of the store." default:"16" placeholder:"N"`
	Drainers   int    `help:"Number of drainers. Default: 4 on Redis, 1 embedded." placeholder:"N"`
	Rate       *leaky.Rate
	Queues     int           `help:"Number of independent queues, each with the rate. Default: 1." placeholder:"N"`
	Children   int           `placeholder:"N"`
	Lanes      int           `help:"Number of lanes in each queue, each with a rate." placeholder:"N"`
	Quota      queue.Quota   `help:"Quota beside the rate, such as 3000/m." placeholder:"N/m"`
	Ramp       []int64       `placeholder:"N,..."`
	Hours      bool          `help:"Close the queue in every second minute. The run must last more than 2m."`
	Limit      prove.Limit   `placeholder:"UNIT=RATE"`
	Duration   time.Duration `help:"Time to keep the queue backlogged, or to ask rules." default:"30s" short:"d"`
	Faults     string        `enum:"none,kill,pause,restart" default:"none" placeholder:"FAULT"`
	Every      time.Duration `help:"Time between two faults." default:"3s"`
	Upgrade    string        `placeholder:"PATH"`
	Slack      time.Duration `help:"Slack of the queue. Default: a hundredth of the interval, 5ms to 500ms."`
	Delta      time.Duration `default:"5ms"`
	Reference  bool          `help:"First measure a process that sleeps in a loop, to compare with."`
	Rules      bool          `help:"Prove rules instead of a queue: what they allow to many callers at several ingresses."`
	Ingresses  int           `help:"With --rules, number of ingresses. Default: 3 on Redis, 1 embedded." placeholder:"N"`
	Callers    int           `help:"With --rules, number of concurrent callers. Default: 16." placeholder:"N"`
	Keys       int           `help:"With --rules, number of keys per rule. Default: 3." placeholder:"N"`
	Verbose    bool          `help:"Show the logs of the processes." short:"v"`
	command.Output
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (Cmd) LongHelp() map[string]string {
	return map[string]string{
		"redis": "Redis to use: redis://, rediss://, or several hosts for Cluster and Sentinel. Default: the embedded " +
			"engine, in one process and a temporary directory.",
		"rate": "Rate of the queue (default 100/s), or with --rules the rate that each rule allows under each key (default " +
			"20/s).",
		"children": "Number of children that share the rate and get the load. 0 is a queue without children.",
		"ramp": "Quota that grows, such as 1000,2000,3000: maximum number of jobs in the first minute, the second, and so " +
			"on. The last one stays. Minutes without departures do not count. The run must last more than 2m.",
		"limit": "Limit in a unit beside the rate, such as tokens=10000/m. Jobs use less or more than the cost they state, " +
			"and are corrected after the delivery.",
		"faults": "Fault to inject into the processes, in turn: ${enum}.",
		"upgrade": "Other build of penstock, to start processes with after a fault. With --faults restart, this proves a " +
			"rolling upgrade to it.",
		"delta": "Tolerance of the law for the way to the receiver, or for the store's clock, fixed before the run.",
	}
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return `Creates a queue with a unique name, starts drainers and a receiver on loopback, keeps the queue
backlogged, injects faults into the drainers (kill: SIGKILL and start again; pause: SIGSTOP for longer
than the lease, then SIGCONT; restart: SIGTERM and start again), and judges every arrival. It deletes
the queue at the end, and stops only processes that it started. Stop other drainers on the same store
first: they would get jobs, but cannot reach the target on this machine's loopback.

With --rules it creates a rule of each algorithm instead, starts ingresses and injects the faults into
them. Callers request four times what the rules allow, and some disconnect before the answer. It judges the
requests that callers know to be allowed.

Examples:
  penstock prove --redis redis://127.0.0.1:6379/0 --drainers 4 --rate 14/s -d 60s
  penstock prove --redis redis://127.0.0.1:6379/0 --init --faults kill -o json
  penstock prove --faults kill
  penstock prove --faults kill --children 3 --lanes 2
  penstock prove --faults kill --rate 2/s --queues 1000
  penstock prove --faults kill -d 90s --quota 3000/m
  penstock prove --faults kill -d 150s --ramp 1000,2000,3000
  penstock prove --faults kill -d 150s --hours
  penstock prove --faults kill --limit tokens=600000/m
  penstock prove --redis redis://127.0.0.1:6379/0 --rules --faults kill
  penstock prove --faults restart --upgrade /tmp/penstock-v0.2.0

Exit code 0 means that the window law held over all windows of any width, for all jobs together, each
queue and each lane; that no accepted job was lost; and that no job arrived twice, except after kill or
pause (delivery is at least once). With --rules it means that no rule allowed more under a key than its
limit, in any window of any width, although callers requested more.`
}

// Run runs the command.
func (c *Cmd) Run(r *command.Run) error {
	if err := c.check(); err != nil {
		return command.Usage(err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the path of this program, to start drainers: %w", err)
	}
	if c.Rules {
		return c.rules(r, self)
	}
	o := prove.Options{
		Drainers: c.processes(c.Drainers, 4), Rate: c.rate(leaky.PerSecond(100)), Queues: c.Queues,
		Children: c.Children, Lanes: c.Lanes, Quota: c.Quota, Ramp: c.Ramp, Hours: c.Hours, Limit: c.Limit,
		Duration: c.Duration,
		Faults:   prove.Faults(c.Faults), Every: c.Every, Slack: c.Slack, Delta: c.Delta, Log: c.log(r),
	}
	if c.Reference {
		o.Reference = func(url string) prove.Command {
			return prove.Command{Path: self, Args: []string{
				"reference", url, "--rate", o.Rate.String(), "--duration", c.Duration.String(),
			}}
		}
	}
	if err := o.Validate(); err != nil {
		return command.Usage(fmt.Errorf("--%w", err))
	}
	t, err := c.target(r, self, 1)
	if err != nil {
		return err
	}
	defer t.end()
	o.Store, o.Drainer = t.store, c.upgrading(t.drainer)
	s := newTicker(r.Err, c.Duration)
	o.Progress = func(elapsed time.Duration, accepted, arrived int, marks []prove.Mark) {
		s.show(elapsed, fmt.Sprintf("%d accepted, %d arrived, %d faults", accepted, arrived, len(marks)))
	}
	report, err := prove.Run(r.Ctx, o)
	s.end()
	if err != nil {
		return err
	}
	return c.print(r, report)
}

// check refuses flags that do not fit together.
func (c *Cmd) check() error {
	switch {
	case c.Ingresses < 0:
		return fmt.Errorf("--ingresses: %d must be from 1 to 64", c.Ingresses)
	case c.Upgrade != "" && c.Faults == string(prove.NoFaults):
		return errors.New("--upgrade: no process would be started again; add --faults restart")
	case c.Every < 0:
		return fmt.Errorf("--every: %v must be more than 0", c.Every)
	case c.Delta < 0:
		return fmt.Errorf("--delta: %v must not be negative, or the law would find false violations", c.Delta)
	case c.Redis == "" && c.Drainers > 1:
		return errors.New(
			"--drainers: the embedded engine has one drainer; use --redis for several",
		)
	case c.Redis == "" && c.Ingresses > 1:
		return errors.New(
			"--ingresses: the embedded engine has one ingress; use --redis for several",
		)
	case c.Rules && (c.Drainers+c.Queues+c.Children+c.Lanes != 0 || c.Quota.Max != 0 || c.Ramp != nil || c.Hours ||
		c.Limit.Unit != "" || c.Reference):
		return errors.New("--rules cannot be used with --drainers, --queues, --children, --lanes, --quota, --ramp, " +
			"--hours, --limit or --reference, which need a queue")
	case !c.Rules && (c.Ingresses != 0 || c.Callers != 0 || c.Keys != 0):
		return errors.New("--ingresses, --callers and --keys need --rules")
	}
	return nil
}

// processes returns the number of processes, n or a default.
func (c *Cmd) processes(n, onRedis int) int {
	switch {
	case n != 0:
		return n
	case c.Redis == "":
		return 1
	}
	return onRedis
}

func (c *Cmd) rate(otherwise leaky.Rate) leaky.Rate {
	if c.Rate == nil {
		return otherwise
	}
	return *c.Rate
}

// log returns the writer for the logs of the processes.
func (c *Cmd) log(r *command.Run) io.Writer {
	if c.Verbose {
		return r.Err
	}
	return io.Discard
}

func (c *Cmd) print(r *command.Run, p *prove.Report) error {
	if c.JSON() {
		return printReport(r, p, p.Held)
	}
	width, ok := command.Width(r.Out)
	if !ok {
		width = 80
	}
	_, _ = fmt.Fprintf(r.Out, "\n%s\n", p.Picture(width))
	what := "embedded, 1 drainer"
	if c.Redis != "" {
		what = fmt.Sprintf("Redis, %d drainers", p.Drainers)
	}
	_, err := fmt.Fprint(r.Out, command.Facts(
		"installation", fmt.Sprintf(
			"%s, rate %s, faults %s (%d injected), %s", what, p.Rate, p.Faults, p.Injected, p.Duration,
		),
		"jobs", fmt.Sprintf(
			"%d accepted, %d delivered, %d lost, %d delivered twice", p.Accepted, p.Delivered, p.Lost, p.Twice,
		),
		"window law", lawText(p.Law.Held, p.Law.Needed, p.Law.Slack+p.Law.Delta),
		"most starts", fmt.Sprintf("%d in any 1 s; the law allows %d", p.Law.Most, p.Law.Allowed),
		"achieved", fmt.Sprintf("%.2f/s, %.2f%% of the rate; %d slots lost", p.Pace.Rate, 100*p.Pace.Share, p.Pace.LostSlots),
		"irregular", fmt.Sprintf(
			"%d jobs released, %d leases expired, %d slots lost as the store counts", p.Released, p.Expired, p.LostByStore,
		),
		"measured by", fmt.Sprintf("arrivals stamped by the kernel: %d of %d; %s", p.ByKernel, p.Arrived, stall(p)),
	))
	if err != nil {
		return err
	}
	if len(p.Levels) > 0 || p.Quota != nil || p.Hours != nil || p.Limit != nil {
		_, _ = fmt.Fprintf(r.Out, "\n%s\n", levels(p))
	}
	if p.Queues > 1 { // starts of several queues have no common gap
		return verdict(r, p.Held, p.Broken)
	}
	t := command.NewTable("", ">LATENESS P50", ">P99", ">MAX", ">|GAP-T| P50", ">P99", ">GAPS UNDER 0.9 T")
	row := func(name string, q *prove.PaceReport) {
		t.Row(
			name, us(q.LatenessP50), us(q.LatenessP99), us(q.LatenessMax), us(q.GapP50), us(q.GapP99),
			fmt.Sprintf("%.2f%%", 100*q.ShortGaps),
		)
	}
	row("penstock", &p.Pace)
	if p.Reference != nil {
		row("a sleeping loop", p.Reference)
	}
	_, _ = fmt.Fprintf(r.Out, "\n%s\n", t.String())
	return verdict(r, p.Held, p.Broken)
}

// levels sums up the window laws of queues, lanes and the quota.
func levels(p *prove.Report) string {
	t := command.NewTable("WINDOW LAW OF", ">HELD", ">NEEDED AT MOST", ">STARTS")
	for _, kind := range []string{"queue", "lane"} {
		var all, held, starts int
		var needed time.Duration
		for _, l := range p.Levels {
			if l.Kind != kind {
				continue
			}
			all++
			starts += l.Starts
			needed = max(needed, l.Law.Needed)
			if l.Law.Held {
				held++
			}
		}
		if all > 0 {
			t.Row(fmt.Sprintf("%d %ss", all, kind), fmt.Sprint(held), us(needed), fmt.Sprint(starts))
		}
	}
	if q := p.Quota; q != nil {
		t.Row("quota "+q.Quota, yes(q.Held), "", list(q.Used))
	}
	if h := p.Hours; h != nil {
		t.Row("hours, each open minute", yes(h.Held), "", list(h.Starts))
	}
	if l := p.Limit; l != nil {
		t.Row(l.Limit+", charged", yes(l.Charged.Held), us(l.Charged.Needed), "")
		t.Row(l.Limit+", actual", yes(l.Actual.Held), us(l.Actual.Needed), fmt.Sprint(l.Used))
	}
	return t.String()
}

func list(numbers []int64) string { return strings.Trim(fmt.Sprint(numbers), "[]") }

func yes(held bool) string {
	if held {
		return "yes"
	}
	return "no"
}

// stall describes how pauses of the measuring process affect the measurement.
func stall(p *prove.Report) string {
	worst := p.WorstStall.Round(time.Microsecond)
	if p.ByKernel == p.Arrived {
		return fmt.Sprintf("this process paused for at most %v, which affected no stamp", worst)
	}
	return fmt.Sprintf("this process paused for at most %v, and may have stamped the others that much too late", worst)
}

// us returns a duration in milliseconds, to the microsecond.
func us(d time.Duration) string { return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond)) }

// ReferenceCmd is the sleeping loop that prove compares with.
type ReferenceCmd struct {
	URL      string        `arg:""`
	Rate     leaky.Rate    `required:""`
	Duration time.Duration `required:""`
}

// Run runs the command.
func (c *ReferenceCmd) Run(r *command.Run) error {
	return prove.Post(r.Ctx, c.URL, c.Rate, c.Duration)
}
