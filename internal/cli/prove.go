package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

type proveCmd struct {
	Redis      string `placeholder:"URL"`
	Init       bool   `help:"Make an empty Redis a store."`
	Partitions int    `help:"Partitions of the store." default:"16" placeholder:"N"`
	Drainers   int    `help:"How many drainer processes; by default 4 on Redis, 1 embedded." placeholder:"N"`
	Rate       *leaky.Rate
	Queues     int           `help:"Number of independent queues, each with that rate; by default 1." placeholder:"N"`
	Children   int           `placeholder:"N"`
	Lanes      int           `help:"How many lanes there are in each queue, each with a rate." placeholder:"N"`
	Quota      queue.Quota   `help:"A quota beside the rate, such as 3000/m." placeholder:"N/m"`
	Duration   time.Duration `help:"How long to keep the queue backlogged, or to ask rules." default:"30s" short:"d"`
	Faults     string        `enum:"none,kill,pause,restart" default:"none" placeholder:"FAULT"`
	Every      time.Duration `help:"Time between two faults." default:"3s"`
	Slack      time.Duration `help:"Slack of the queue. Default: a hundredth of the interval, 5ms to 500ms."`
	Delta      time.Duration `default:"5ms"`
	Reference  bool
	Rules      bool
	Ingresses  int  `placeholder:"N"`
	Callers    int  `help:"With --rules, how many ask at once; by default 16." placeholder:"N"`
	Keys       int  `help:"With --rules, how many keys of each rule are asked; by default 3." placeholder:"N"`
	Verbose    bool `help:"Show what the processes log." short:"v"`
	output
}

// LongHelp is the help that is too long for the tags.
func (proveCmd) LongHelp() map[string]string {
	return map[string]string{
		"redis": "Redis to prove: redis://, rediss://, or several hosts for Cluster and Sentinel. Without it the " +
			"embedded engine is proved, with one process, in a directory of its own.",
		"rate": "Outflow of the queue, by default 100/s; with --rules what each rule allows under each key, by " +
			"default 20/s.",
		"children": "How many queues share that rate, as children of one; the load goes to them. 0 is one queue alone.",
		"faults":   "What to do to the processes, in turn: ${enum}.",
		"delta": "What the law is widened by: for the way to the receiver, or for the store's clock; it is fixed " +
			"before the run.",
		"reference": "Before, measure one process that sleeps in a loop in the same way, to compare with.",
		"rules":     "Prove rules in place of a queue: what they let through while many ask at several ingresses.",
		"ingresses": "With --rules, how many ingress processes; by default 3 on Redis, 1 embedded.",
	}
}

// Help is shown below the flags.
func (proveCmd) Help() string {
	return `Makes a queue with a name of its own, starts drainer processes and a receiver on
loopback, keeps the queue backlogged, does to the drainers what --faults says (kill:
SIGKILL and start again; pause: SIGSTOP for longer than the lease, then SIGCONT;
restart: SIGTERM and start again), and judges every arrival. The queue is removed at
the end. Only processes that it started are ended. If other drainers run on the same
store they take part, and must reach this machine's loopback; stop them before.

With --rules it makes a rule of each algorithm instead, starts ingress processes, does
that to them, and has callers ask four times as much as the rules allow. Some hang up
before they are answered. What the callers know to have been let through is judged.

Examples:
  penstock prove --redis redis://127.0.0.1:6379/0 --drainers 4 --rate 14/s -d 60s
  penstock prove --redis redis://127.0.0.1:6379/0 --init --faults kill -o json
  penstock prove --faults kill
  penstock prove --faults kill --children 3 --lanes 2
  penstock prove --faults kill --rate 2/s --queues 1000
  penstock prove --faults kill -d 90s --quota 3000/m
  penstock prove --redis redis://127.0.0.1:6379/0 --rules --faults kill

Exit code 0 only if the window law held over all windows of any width, for all jobs
together, for each queue and for each lane; if no accepted job was lost; and if no job
came twice without a fault to explain it (a job may come twice after kill and pause:
delivery is at least once). With --rules, only if no rule let more through
under a key than it may, in any span of any width, and each was asked for more.`
}

func (c *proveCmd) Run(r *run) error {
	if err := c.check(); err != nil {
		return usage(err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it again as a drainer: %w", err)
	}
	if c.Rules {
		return c.rules(r, self)
	}
	o := prove.Options{
		Drainers: c.processes(c.Drainers, 4), Rate: c.rate(leaky.PerSecond(100)), Queues: c.Queues,
		Children: c.Children, Lanes: c.Lanes, Quota: c.Quota, Duration: c.Duration,
		Faults: prove.Faults(c.Faults), Every: c.Every, Slack: c.Slack, Delta: c.Delta, Log: c.log(r),
	}
	if c.Reference {
		o.Reference = func(url string) prove.Command {
			return prove.Command{Path: self, Args: []string{
				"reference", url, "--rate", o.Rate.String(), "--duration", c.Duration.String(),
			}}
		}
	}
	if err := o.Validate(); err != nil {
		return usage(fmt.Errorf("--%w", err))
	}
	t, err := c.target(r, self, 1)
	if err != nil {
		return err
	}
	defer t.end()
	o.Store, o.Drainer = t.store, t.drainer
	s := newTicker(r.Err)
	o.Progress = func(elapsed time.Duration, accepted, arrived int, marks []prove.Mark) {
		s.show(elapsed, fmt.Sprintf(
			"%s of %s  %d accepted, %d arrived, %d faults", short(elapsed), short(c.Duration), accepted, arrived, len(marks),
		))
	}
	report, err := prove.Run(r.ctx, o)
	s.end()
	if err != nil {
		return err
	}
	return c.print(r, report)
}

// check refuses what does not go together.
func (c *proveCmd) check() error {
	switch {
	case c.Ingresses < 0:
		return fmt.Errorf("--ingresses: %d must be from 1 to 64", c.Ingresses)
	case c.Every < 0:
		return fmt.Errorf("--every: %v must be more than 0", c.Every)
	case c.Delta < 0:
		return fmt.Errorf("--delta: %v must not be less than 0: a law that is narrowed accuses wrongly", c.Delta)
	case c.Redis == "" && c.Drainers > 1:
		return errors.New(
			"--drainers: the embedded engine lives in one process and has one drainer; give --redis to prove several",
		)
	case c.Redis == "" && c.Ingresses > 1:
		return errors.New(
			"--ingresses: the embedded engine lives in one process, which is the one ingress; give --redis to prove several",
		)
	case c.Rules && (c.Drainers+c.Queues+c.Children+c.Lanes != 0 || c.Quota.Max != 0 || c.Reference):
		return errors.New("--rules: is a proof of rules, without a queue; leave out --drainers, --queues, --children, " +
			"--lanes, --quota and --reference")
	case !c.Rules && (c.Ingresses != 0 || c.Callers != 0 || c.Keys != 0):
		return errors.New("--ingresses, --callers and --keys say how rules are asked; give --rules")
	}
	return nil
}

// processes is how many there are, or else by default.
func (c *proveCmd) processes(n, onRedis int) int {
	switch {
	case n != 0:
		return n
	case c.Redis == "":
		return 1
	}
	return onRedis
}

func (c *proveCmd) rate(otherwise leaky.Rate) leaky.Rate {
	if c.Rate == nil {
		return otherwise
	}
	return *c.Rate
}

// log is where the processes say what they say.
func (c *proveCmd) log(r *run) io.Writer {
	if c.Verbose {
		return r.Err
	}
	return io.Discard
}

func (c *proveCmd) print(r *run, p *prove.Report) error {
	if c.json() {
		if err := printJSON(r.Out, p); err != nil {
			return err
		}
		return heldOrNot(p.Held)
	}
	width, ok := terminal(r.Out)
	if !ok {
		width = 80
	}
	_, _ = fmt.Fprintf(r.Out, "\n%s\n", p.Picture(width))
	what := "embedded, 1 drainer"
	if c.Redis != "" {
		what = fmt.Sprintf("Redis, %d drainers", p.Drainers)
	}
	err := facts(r.Out,
		"installation", fmt.Sprintf(
			"%s, rate %s, faults %s (%d injected), %s", what, p.Rate, p.Faults, p.Injected, p.Duration,
		),
		"jobs", fmt.Sprintf(
			"%d accepted, %d delivered, %d lost, %d delivered twice", p.Accepted, p.Delivered, p.Lost, p.Twice,
		),
		"window law", lawLine(p.Law.Held, p.Law.Needed, p.Law.Slack+p.Law.Delta),
		"most starts", fmt.Sprintf("%d in any 1 s; the law allows %d", p.Law.Most, p.Law.Allowed),
		"achieved", fmt.Sprintf("%.2f/s, %.2f%% of the rate; %d slots lost", p.Pace.Rate, 100*p.Pace.Share, p.Pace.LostSlots),
		"irregular", fmt.Sprintf(
			"%d jobs given back, %d leases ran out, %d slots lost by the store's count", p.Released, p.Expired, p.LostByStore,
		),
		"measured by", fmt.Sprintf("arrivals stamped by the kernel: %d of %d; %s", p.ByKernel, p.Arrived, stall(p)),
	)
	if err != nil {
		return err
	}
	if len(p.Levels) > 0 || p.Quota != nil {
		_, _ = fmt.Fprintf(r.Out, "\n%s\n", levels(p))
	}
	if p.Queues > 1 { // starts of several queues have no common distance
		return verdict(r, p.Held, p.Broken)
	}
	t := table{
		header: []string{"", "LATENESS P50", "P99", "MAX", "|GAP-T| P50", "P99", "GAPS UNDER 0.9 T"},
		right:  map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true},
	}
	row := func(name string, q *prove.PaceReport) {
		t.add(
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

// levels sums up the window laws below the first rate, and beside it.
func levels(p *prove.Report) string {
	t := table{
		header: []string{"WINDOW LAW OF", "HELD", "NEEDED AT MOST", "STARTS"}, right: map[int]bool{1: true, 2: true, 3: true},
	}
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
			t.add(fmt.Sprintf("%d %ss", all, kind), fmt.Sprint(held), us(needed), fmt.Sprint(starts))
		}
	}
	if q := p.Quota; q != nil {
		held := "no"
		if q.Held {
			held = "yes"
		}
		t.add("quota "+q.Quota, held, "", strings.Trim(fmt.Sprint(q.Used), "[]"))
	}
	return t.String()
}

// stall says what it means that the process which measured was held up.
func stall(p *prove.Report) string {
	worst := p.WorstStall.Round(time.Microsecond)
	if p.ByKernel == p.Arrived {
		return fmt.Sprintf("this process was held up for at most %v, which moved none", worst)
	}
	return fmt.Sprintf("this process was held up for at most %v, and may have taken the others that much too late", worst)
}

// us is a duration to the microsecond, in milliseconds.
func us(d time.Duration) string { return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond)) }

// ticker shows one line that is written over on a terminal, and every 5 s elsewhere.
type ticker struct {
	w      io.Writer
	width  int
	inline bool
	drawn  bool
	next   time.Duration
}

func newTicker(w io.Writer) *ticker {
	width, ok := terminal(w)
	return &ticker{w: w, width: width, inline: ok, next: plainEvery}
}

func (t *ticker) show(elapsed time.Duration, line string) {
	switch {
	case t.inline:
		t.drawn = true
		text := []rune(line)
		_, _ = fmt.Fprintf(t.w, "\r%s\x1b[K", string(text[:min(len(text), t.width-1)]))
	case elapsed >= t.next:
		t.next += plainEvery
		_, _ = fmt.Fprintln(t.w, strings.TrimSpace(line))
	}
}

func (t *ticker) end() {
	if t.drawn {
		_, _ = fmt.Fprint(t.w, "\r\x1b[K")
	}
}

// referenceCmd is the process that prove compares with.
type referenceCmd struct {
	URL      string        `arg:""`
	Rate     leaky.Rate    `required:""`
	Duration time.Duration `required:""`
}

func (c *referenceCmd) Run(r *run) error {
	return prove.Post(r.ctx, c.URL, c.Rate, c.Duration)
}
