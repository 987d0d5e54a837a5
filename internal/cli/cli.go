// Package cli is the operator's tool: its commands, what they print, and the
// codes with which they end.
//
// It promises that every command works against any ingress that it can reach,
// that what it prints as a command works when pasted, that results go to
// standard output and all else to standard error, and that the exit code says
// what happened (see Exit). It refuses to touch a store by itself, but for up,
// init, token init, demo, prove, doctor, check, export and import, which say so.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue/audit"
)

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// root is the command line.
type root struct {
	Server  string           `env:"PENSTOCK_URL" placeholder:"URL" short:"s"`
	Version kong.VersionFlag `help:"Print the version and end." short:"V" env:"-"`

	Up     upCmd        `cmd:"" help:"Run ingress and drainer in one process, with nothing to install."`
	Init   initCmd      `cmd:"" help:"Create the store of ingress and drainer on an empty Redis, and exit."`
	Push   pushCmd      `cmd:"" help:"Bring the jobs of a file into a queue."`
	Top    topCmd       `cmd:""`
	Events eventsCmd    `cmd:"" help:"Tell what happens to queues, as it happens."`
	Queue  queueCmd     `cmd:"" help:"Look at queues and change them."`
	Rule   ruleCmd      `cmd:"" help:"Look at rules, which decide what comes in, and ask them."`
	Job    jobCmd       `cmd:"" help:"Look at jobs, and cancel them."`
	Dead   deadCmd      `cmd:"" help:"Look at dead jobs, and decide about them."`
	Held   heldCmd      `cmd:"" help:"Look at held jobs, which may have been sent, and decide about them."`
	Doctor doctorCmd    `cmd:"" help:"Find out what is wrong with an installation, and what mends it."`
	Check  checkCmd     `cmd:"" help:"Find damage in an embedded store."`
	Login  loginCmd     `cmd:"" help:"Keep a token for a server."`
	Logout logoutCmd    `cmd:"" help:"Forget a token that is kept."`
	Whoami whoamiCmd    `cmd:"" help:"Tell who the server takes you for, and what you may do."`
	App    appCmd       `cmd:"" help:"Look at apps, which share a server, and change them."`
	Token  tokenCmd     `cmd:"" help:"Look at tokens, make, rotate and revoke them."`
	Sub    subjectCmd   `cmd:"" name:"subject" help:"Look at those who come without a token, and let them in."`
	Audit  auditCmd     `cmd:"" help:"Look at who did what, and prove that the record is whole."`
	Replay replayCmd    `cmd:"" help:"Try rules and queues on the requests of logs, without a server."`
	Export exportCmd    `cmd:"" help:"Write a whole store to a file."`
	Import importCmd    `cmd:"" help:"Put such a file into a store."`
	Sink   sinkCmd      `cmd:""`
	SMS    simulatorCmd `cmd:"" name:"sms-simulator" help:"Answer as a provider of texts does, and send none."`
	Demo   demoCmd      `cmd:"" help:"See it work: 400 messages through a small queue, in 20 seconds, judged."`
	Prove  proveCmd     `cmd:""`

	Ver  versionCmd `cmd:"" name:"version" help:"Print the version."`
	Help helpCmd    `cmd:"" help:"Tell about a command, as --help does."`

	Completion completionCmd `cmd:"" help:"Print a script that completes command lines in your shell."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"Complete a word (the scripts of completion ask this)."`
	Drainer    drainerCmd    `cmd:"" hidden:"" help:"Drain a store (prove starts these)."`
	Ingress    ingressCmd    `cmd:"" hidden:"" help:"Serve the API of a store (prove starts these)."`
	Reference  referenceCmd  `cmd:"" hidden:"" help:"Post at a rate by sleeping (prove starts this)."`
}

// LongHelp is the help that is too long for the tags.
func (root) LongHelp() map[string]string {
	return map[string]string{
		"server": "URL of the ingress, or unix:///PATH of its socket; " + client.DefaultURL + " if nothing names one.",
		"top":    "Watch all queues: how full they are, what comes in, leaves, is refused, deferred, and late.",
		"sink":   "Show what arrives: a receiver for trials, which can be slow or fail on request.",
		"prove": "Prove the pace and that nothing is lost, or what rules let through, on your installation, under " +
			"faults.",
	}
}

type queueCmd struct {
	connection
	Ls        lsCmd          `cmd:"" help:"List queues."`
	Info      infoCmd        `cmd:"" help:"Tell all about one queue."`
	Set       setCmd         `cmd:"" help:"Change settings of a queue, or make it."`
	Apply     applyCmd       `cmd:""`
	Pause     pauseCmd       `cmd:"" help:"Stop a queue's departures. Jobs still come in."`
	Resume    resumeCmd      `cmd:"" help:"Let departures go on, at the rate: nothing was saved up."`
	Log       logCmd         `cmd:"" help:"Tell what was done to a queue, and by whom as they say."`
	Rollback  rollbackCmd    `cmd:"" help:"Put an earlier spec of a queue again."`
	Quote     quoteCmd       `cmd:""`
	Timetable timetableCmd   `cmd:"" help:"Tell what leaves a queue next, when, and why it stands still if it does."`
	History   historyCmd     `cmd:"" help:"Draw what a queue did in the last 15 minutes, or the last day."`
	Events    queueEventsCmd `cmd:"" help:"Tell what happens to a queue, as it happens."`
	Turn      turnCmd        `cmd:"" help:"Wait for a turn to do something yourself, at the pace of a queue."`
	Purge     purgeCmd       `cmd:"" help:"Take back the jobs that have not left."`
	Rm        rmCmd          `cmd:"" help:"Remove a queue."`
}

// LongHelp is the help that is too long for the tags.
func (queueCmd) LongHelp() map[string]string {
	return map[string]string{
		"apply": "Bring queues, and the rules beside them, in line with a file, and show what changed.",
		"quote": "Tell what would become of jobs, and what another rate would change. Nothing is appended.",
	}
}

type jobCmd struct {
	connection
	Ls     jobLsCmd     `cmd:"" help:"List jobs in one state."`
	Get    jobGetCmd    `cmd:"" help:"Tell where a job is."`
	Cancel jobCancelCmd `cmd:"" help:"Take a job back that has not left."`
}

// run is what a command gets to work with.
type run struct {
	Streams
	ctx        context.Context
	server     string // as --server says; empty if it does not
	connection connection
}

// client returns the client of the ingress that --server names.
func (r *run) client() (*client.Client, error) {
	c, err := r.connection.client(r.server)
	if err != nil {
		return nil, usage(err)
	}
	return c, nil
}

// operator is user@host of whoever runs the tool, as far as the system tells: what is changed is
// recorded as theirs.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	if audit.ValidateNote(name) != nil {
		return ""
	}
	return name
}

// say prints a line for people on standard error.
func (r *run) say(format string, args ...any) {
	_, _ = fmt.Fprintln(r.Err, show.Lines(fmt.Sprintf(format, args...)))
}

// terminal reports whether w is one, and how wide.
func terminal(w io.Writer) (width int, ok bool) {
	width, _, ok = screenSize(w)
	return width, ok
}

// screenSize is terminal, and how high.
func screenSize(w io.Writer) (width, height int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	if err != nil || height < 1 {
		height = 24
	}
	return width, height, true
}

const description = `The operator's tool of Penstock, a bounded queue with an exact outflow.

It speaks HTTP to an ingress, which --server or PENSTOCK_URL names. A flag with a name
beside it can be given as that environment variable too.

Exit codes: 0 done; 1 failed, or (demo, prove, doctor) what was looked at did not
hold; 2 the command line or a file cannot be understood; 3 the server refused,
wholly or in part; 4 the ingress or its store cannot be reached; 130 broken off.`

// Run runs one command line, without the program's name, and returns its exit
// code. When ctx ends the command is broken off.
func Run(ctx context.Context, args []string, s Streams) Exit {
	var cli root
	cli.Up.OpenAsynq = asynq.Open
	r := &run{Streams: s, ctx: audit.WithNote(ctx, operator())}
	ended := false
	parser, err := kong.New(&cli,
		kong.Name("penstock"),
		kong.Description(description),
		kong.DefaultEnvars("PENSTOCK"),
		kong.PostBuild(func(k *kong.Kong) error {
			unasked(k.Model.Node)
			explainSettings(k.Model.Node)
			if err := app.SetLongHelp(k); err != nil {
				return err
			}
			keepNamed(k.Model.Node, args)
			return nil
		}),
		kong.Bind(r),
		kong.Vars{"version": ops.Version},
		kong.Writers(s.Out, s.Err),
		kong.Exit(func(int) { ended = true }), // after --help and --version
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		_, _ = fmt.Fprintf(s.Err, "penstock: the command line is built wrongly: %v\n", err)
		return ExitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if ended {
		return ExitDone
	}
	if err != nil {
		return complain(s.Err, usage(err))
	}
	r.server = cli.Server
	return complain(s.Err, r.advised(parsed.Run()))
}

// keepNamed drops the commands beside those that a command line begins with. To prepare all flags of all of them takes
// longer than most commands. Those that tell of others need them.
func keepNamed(node *kong.Node, args []string) {
	if len(args) == 0 || args[0] == "help" || args[0] == "complete" {
		return
	}
	for _, child := range node.Children {
		if child.Name == args[0] {
			node.Children = []*kong.Node{child}
			keepNamed(child, args[1:])
		}
	}
}

// complain prints an error and returns the exit code that goes with it.
func complain(w io.Writer, err error) Exit {
	code := exitOf(err)
	var quiet *ended
	if err == nil || errors.As(err, &quiet) && quiet.err == nil {
		return code
	}
	if code == ExitBrokenOff {
		_, _ = fmt.Fprintln(w, "penstock: broken off")
		return code
	}
	_, _ = fmt.Fprintf(w, "penstock: %s\n", show.Lines(err.Error()))
	if code == ExitUsage {
		_, _ = fmt.Fprintln(w, `penstock: "penstock COMMAND --help" tells more`)
	}
	return code
}
