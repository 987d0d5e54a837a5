// Package cli is the penstock command line: it binds the commands together and runs them.
//
// It promises that every command works with any server it can reach, that commands it prints can be pasted, that
// results go to standard output and all else to standard error, and that the exit code says what happened (see Exit).
// Commands never open a store themselves, except up, init, token init, demo, prove, doctor, check, export and import.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/cli/accesscmd"
	"github.com/penstock/penstock/internal/cli/auditcmd"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/doctorcmd"
	"github.com/penstock/penstock/internal/cli/jobcmd"
	"github.com/penstock/penstock/internal/cli/provecmd"
	"github.com/penstock/penstock/internal/cli/pushcmd"
	"github.com/penstock/penstock/internal/cli/queuecmd"
	"github.com/penstock/penstock/internal/cli/replaycmd"
	"github.com/penstock/penstock/internal/cli/rulecmd"
	"github.com/penstock/penstock/internal/cli/sinkcmd"
	"github.com/penstock/penstock/internal/cli/storecmd"
	"github.com/penstock/penstock/internal/cli/upcmd"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue/audit"
)

// Streams are the standard streams of a command.
type Streams = command.Streams

// Exit is the exit code of a command.
type Exit = command.Exit

// The exit codes.
const (
	ExitDone        = command.ExitDone
	ExitFailed      = command.ExitFailed
	ExitUsage       = command.ExitUsage
	ExitRefused     = command.ExitRefused
	ExitUnreachable = command.ExitUnreachable
	ExitInterrupted = command.ExitInterrupted
)

// root is the command line.
type root struct {
	Server  string           `env:"PENSTOCK_URL" placeholder:"URL" short:"s"`
	Version kong.VersionFlag `help:"Print the version." short:"V" env:"-"`

	Up     upcmd.Cmd             `cmd:"" help:"Run a complete server: ingress, drainer and embedded store."`
	Init   storecmd.InitCmd      `cmd:"" help:"Create a store on an empty Redis."`
	Push   pushcmd.Cmd           `cmd:"" help:"Append the jobs of a file to a queue."`
	Top    queuecmd.TopCmd       `cmd:"" help:"Show live figures of all queues."`
	Events queuecmd.AllEventsCmd `cmd:"" help:"Stream the events of all queues."`
	Queue  queuecmd.Cmd          `cmd:"" help:"Manage queues."`
	Rule   rulecmd.Cmd           `cmd:"" help:"Manage rules, which limit what comes in, and take from them."`
	Job    jobcmd.Cmd            `cmd:"" help:"Show and cancel jobs."`
	Dead   jobcmd.DeadCmd        `cmd:"" help:"List, replay and delete dead jobs."`
	Held   jobcmd.HeldCmd        `cmd:"" help:"List held jobs, which may have been sent, and decide about them."`
	Doctor doctorcmd.Cmd         `cmd:"" help:"Find problems of an installation and how to fix them."`
	Check  storecmd.CheckCmd     `cmd:"" help:"Check an embedded store for damage."`
	Login  accesscmd.LoginCmd    `cmd:"" help:"Save a token for a server."`
	Logout accesscmd.LogoutCmd   `cmd:"" help:"Remove a saved login."`
	Whoami accesscmd.WhoamiCmd   `cmd:"" help:"Show your identity and permissions."`
	App    accesscmd.AppCmd      `cmd:"" help:"Manage apps, which share a server."`
	Token  accesscmd.TokenCmd    `cmd:"" help:"Manage tokens."`
	Sub    accesscmd.SubjectCmd  `cmd:"" name:"subject" help:"Manage external identities: certificates, JWTs, Unix users."`
	Audit  auditcmd.Cmd          `cmd:"" help:"Read and verify the audit log."`
	Replay replaycmd.Cmd         `cmd:"" help:"Replay the requests of logs through rules and queues, without a server."`
	Export storecmd.ExportCmd    `cmd:"" help:"Export a store to a file."`
	Import storecmd.ImportCmd    `cmd:"" help:"Import a store from a file."`
	Sink   sinkcmd.Cmd           `cmd:"" help:"Run a test receiver that shows what arrives and can be slow or fail."`
	SMS    sinkcmd.SMSCmd        `cmd:"" name:"sms-simulator" help:"Run a test SMS provider that sends nothing."`
	Demo   provecmd.DemoCmd      `cmd:"" help:"Run a demo: 400 messages through a small queue in 20 seconds."`
	Prove  provecmd.Cmd          `cmd:"" help:"Prove rates, rules and delivery on your installation, under faults."`

	Ver  versionCmd `cmd:"" name:"version" help:"Print the version."`
	Help helpCmd    `cmd:"" help:"Show the help of a command, as --help does."`

	Completion completionCmd         `cmd:"" help:"Print a shell completion script."`
	Complete   completeCmd           `cmd:"" hidden:"" help:"Complete a word, for the completion scripts."`
	Drainer    provecmd.DrainerCmd   `cmd:"" hidden:"" help:"Drain a store, for prove."`
	Ingress    provecmd.IngressCmd   `cmd:"" hidden:"" help:"Serve the API of a store, for prove."`
	Reference  provecmd.ReferenceCmd `cmd:"" hidden:"" help:"Post at a rate by sleeping, for prove."`
}

func (root) LongHelp() map[string]string {
	return map[string]string{
		"server": "URL of the server, or unix:///PATH of its socket. Default: " + client.DefaultURL + ".",
	}
}

// userAtHost returns the user@host that runs the tool, to be recorded with changes.
func userAtHost() string {
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

const description = `Penstock operates bounded queues with an exact outflow.

Most commands use the HTTP API of the server in --server or PENSTOCK_URL. A flag with a variable in
parentheses can also be set by that environment variable.

Exit codes: 0 success; 1 failure, or demo, prove or doctor found something wrong; 2 invalid command
line or file; 3 the server refused all or part of the request; 4 the server or its store cannot be
reached; 130 interrupted.`

// Run runs a command line, without the program's name, and returns its exit code. The command is interrupted when ctx
// ends.
func Run(ctx context.Context, args []string, s Streams) Exit {
	var cli root
	cli.Up.OpenAsynq = asynq.Open
	r := &command.Run{Streams: s, Ctx: audit.WithNote(ctx, userAtHost())}
	ended := false
	parser, err := kong.New(&cli,
		kong.Name("penstock"),
		kong.Description(description),
		kong.DefaultEnvars("PENSTOCK"),
		kong.PostBuild(func(k *kong.Kong) error {
			withoutEnvironment(k.Model.Node)
			queuecmd.ExplainSettings(k.Model.Node)
			if err := app.SetLongHelp(k); err != nil {
				return err
			}
			keepNamed(k.Model.Node, args)
			return nil
		}),
		kong.Bind(r),
		kong.BindToProvider(func() (*client.Client, error) { return r.Client() }),
		kong.Vars{"version": ops.Version},
		kong.Writers(s.Out, s.Err),
		kong.Exit(func(int) { ended = true }), // after --help and --version
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		_, _ = fmt.Fprintf(s.Err, "penstock: invalid definition of the command line: %v\n", err)
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
		return command.Report(s.Err, command.Usage(err))
	}
	r.Server = cli.Server
	return command.Report(s.Err, r.Advise(parsed.Run()))
}

// keepNamed drops the siblings of the given commands, because preparing the flags of all commands takes longer than
// most commands run. Commands that need their siblings keep them.
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
