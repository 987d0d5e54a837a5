// Package upcmd has penstock up.
package upcmd

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/cli/memory"
	"github.com/penstock/penstock/internal/cli/operator"
	"github.com/penstock/penstock/internal/ops"
)

// Cmd is penstock up.
type Cmd struct {
	Data        string        `help:"Directory of the store." default:"./penstock-data" placeholder:"DIR"`
	Listen      string        `default:"127.0.0.1:8080" placeholder:"ADDR"`
	Config      string        `help:"File of rules and queues to create if missing." placeholder:"FILE"`
	Concurrency int           `default:"0" placeholder:"N"`
	TLSCert     string        `help:"PEM file of the certificate." placeholder:"FILE"`
	TLSKey      string        `help:"PEM file of its private key." placeholder:"FILE"`
	TLSClientCA string        `name:"tls-client-ca" placeholder:"FILE"`
	Insecure    bool          `help:"Allow listening beyond loopback without TLS."`
	KeepChanges time.Duration `placeholder:"DURATION"`
	app.AuthFlags
	app.HostFlags
	app.EgressFlags
	app.SecretsFlags
	app.PublishFlags
	app.MemoryFlags
	app.HealthFlags
	app.ConsoleFlags
	app.TraceFlags
	app.LogFlags
	LogLevel slog.Level `help:"Minimum log level: debug, info, warn or error." default:"info" placeholder:"LEVEL"`
	EphemeralFlags
	Tether bool `hidden:"" help:"Exit when standard input ends."`
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (Cmd) LongHelp() map[string]string {
	return map[string]string{
		"listen":        "Address to listen on, HOST:PORT. Port 0 takes a free port.",
		"concurrency":   "Maximum number of jobs in delivery per queue, and twice as many in total; 0 is 128.",
		"tls-client-ca": "PEM file of authorities. Only clients with one of their certificates are served.",
		"keep-changes": "Time to keep the history of changes to queues and rules, at least 1h. The store remembers it. " +
			"Default: 9600h.",
	}
}

// Validate is called by the parser.
func (c *Cmd) Validate() error {
	return errors.Join(
		c.PublishFlags.Validate(), c.MemoryFlags.Validate(), c.AuthFlags.Validate(), c.ConsoleFlags.Validate(),
		c.validateEphemeral(),
	)
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return `Runs until Ctrl-C or SIGTERM. Then it refuses new jobs, returns unsent jobs to their queues, and
finishes deliveries that have started. Jobs are on disk before they are acknowledged. Only one process
can use a store.

Clients need a token; the operator's token is in DIR/admin.token. The Unix socket DIR/penstock.sock
needs no token, and penstock commands on this machine find it by themselves. --no-auth disables
authentication, on loopback only.

By default, targets must have public addresses. For trials, --egress-allow 127.0.0.1 also allows
targets on this machine, except the addresses on which this process itself listens.

For tests of your own programs, --ephemeral keeps everything in memory, listens on a free port and
prints one line of JSON with its url, token and pid. It ends with the process that started it. With
--clock virtual, POST /v1/clock advances its clock: see docs/testing.md.

Examples:
  penstock up
  penstock up --egress-allow 127.0.0.1
  penstock up --data /var/lib/penstock --config queues.yaml
  penstock up --listen 127.0.0.1:9090
  penstock up --ephemeral --clock virtual`
}

// Run runs the command.
func (c *Cmd) Run(r *command.Run) error {
	if c.Ephemeral {
		return c.runEphemeral(r)
	}
	ctx := r.Ctx
	if c.Tether {
		tied, cancel := command.Tethered(ctx, r.In)
		defer cancel()
		ctx = tied
	}
	log := command.Logger(r.Err, c.LogLevel)
	app.QuietHTTP(log)
	o, err := c.options(log)
	if err != nil {
		return command.Usage(err)
	}
	if o.Listen.Socket, err = socketIn(c.Data, log); err != nil {
		return err
	}
	memory.CollectBefore(o.Memory)
	server, err := embedded.Open(ctx, o)
	if err != nil {
		return err
	}
	warnOfWriters(c.Data, log)
	if o.Listen.Socket != "" {
		defer operator.SaveLogin(server.URL(), o.Listen.Socket, log)()
	}
	if err := c.greet(r, server, o.Egress, o.Listen.Socket); err != nil {
		r.Say("penstock: %v", err) // it runs all the same
	}
	return server.Run(ctx)
}

// options checks the flags and returns the options of the server.
func (c *Cmd) options(log *slog.Logger) (o embedded.Options, err error) {
	o = embedded.Options{
		Data: c.Data,
		Listen: ops.Listen{
			Addr: c.Listen, TLSCert: c.TLSCert, TLSKey: c.TLSKey, TLSClientCA: c.TLSClientCA, Insecure: c.Insecure,
			Hosts: c.Host,
		},
		Config: c.Config, Concurrency: c.Concurrency, EgressAllow: c.EgressAllow, Publish: c.PublishFlags, Auth: &c.AuthFlags,
		Console: c.ConsoleFlags, Traces: c.TraceFlags, Logs: c.LogFlags, Memory: memory.Limit(os.DirFS("/")),
		KeepChanges: c.KeepChanges, Log: log,
	}
	if err := c.Valid(); err != nil {
		return o, err
	}
	if o.Egress, err = c.Guard(); err != nil {
		return o, err
	}
	if err := errors.Join(app.ValidKeepChanges(c.KeepChanges), c.Allowed(o.Listen)); err != nil {
		return o, err
	}
	if o.Secrets, err = c.Source(); err != nil {
		return o, err
	}
	o.Health = c.Beside(o.Listen)
	if err := c.Bound(&o.Limits); err != nil {
		return o, err
	}
	if o.Memory > 0 { // jobs use half of it
		o.Limits.Memory = ops.NewBudget(max(app.MinMemory, min(o.Limits.Memory.Limit(), o.Memory/4)))
	}
	return o, nil
}

// socketIn returns the path of the Unix socket in a directory; empty if there can be none.
func socketIn(data string, log *slog.Logger) (string, error) {
	path, err := filepath.Abs(filepath.Join(data, operator.SocketFile))
	switch {
	case err != nil:
		return "", fmt.Errorf("--data %s: %w", data, err)
	case !auth.KnowsPeers:
		return "", nil
	case len(path) > ops.MaxSocket:
		log.Warn("no Unix socket, because its path would be too long: penstock commands need --token-file", "path", path,
			"token", filepath.Join(data, operator.TokenFile))
		return "", nil
	}
	return path, nil
}

// warnOfWriters warns if other users can replace files of the store. It is not an error: a volume that only this
// process uses may have such a mode.
func warnOfWriters(data string, log *slog.Logger) {
	info, err := os.Stat(data)
	if err == nil && operator.OthersWrite(info.Mode().Perm()) {
		log.Warn("others can write to the directory of the store, and replace its socket: chmod 700 it",
			"data", data, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}
