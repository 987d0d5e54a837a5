package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/ops"
)

type upCmd struct {
	Data        string        `default:"./penstock-data" placeholder:"DIR"`
	Listen      string        `default:"127.0.0.1:8080" placeholder:"ADDR"`
	Config      string        `help:"File of rules and queues to make if they are missing." placeholder:"FILE"`
	Concurrency int           `default:"0" placeholder:"N"`
	TLSCert     string        `help:"Certificate, PEM." placeholder:"FILE"`
	TLSKey      string        `help:"Its key, PEM." placeholder:"FILE"`
	TLSClientCA string        `name:"tls-client-ca" placeholder:"FILE"`
	Insecure    bool          `help:"Listen beyond loopback without TLS."`
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
	LogLevel slog.Level `help:"debug, info, warn or error." default:"info" placeholder:"LEVEL"`
	Tether   bool       `hidden:"" help:"End when standard input does."`
}

// LongHelp is the help that is too long for the tags.
func (upCmd) LongHelp() map[string]string {
	return map[string]string{
		"data":          "Directory of the store; made if it is not there.",
		"listen":        "Where to listen, HOST:PORT; port 0 takes a free one.",
		"concurrency":   "Jobs of one queue under way at once, and twice as many of all; 0 is 128.",
		"tls-client-ca": "Authorities, PEM: only clients with a certificate of theirs are served.",
		"keep-changes": "How long the record of changes to queues and rules is kept, such as 9600h, the default; at least " +
			"1h. The store keeps it.",
	}
}

// Validate is called by the parser.
func (c *upCmd) Validate() error {
	return errors.Join(
		c.PublishFlags.Validate(), c.MemoryFlags.Validate(), c.AuthFlags.Validate(), c.ConsoleFlags.Validate(),
	)
}

// Help is shown below the flags.
func (upCmd) Help() string {
	return `Runs until Ctrl-C or SIGTERM: then it stops taking jobs, gives back those that have not
left, and finishes those that have. Jobs are on disk before they are acknowledged. One
process has the store; a second one on the same directory is refused.

Who asks shows a token: that of the operator is in DIR/admin.token. DIR/penstock.sock is a Unix
socket that needs none, where "penstock" on this machine finds the server by itself. --no-auth asks
nobody, on loopback only.

Targets may be at public addresses. One on this machine, for trials, needs
--egress-allow 127.0.0.1; never is one where this process itself listens.

Examples:
  penstock up
  penstock up --egress-allow 127.0.0.1
  penstock up --data /var/lib/penstock --config queues.yaml
  penstock up --listen 127.0.0.1:9090`
}

func (c *upCmd) Run(r *run) error {
	ctx := r.ctx
	if c.Tether {
		tied, cancel := tethered(ctx, r.In)
		defer cancel()
		ctx = tied
	}
	listen := ops.Listen{
		Addr: c.Listen, TLSCert: c.TLSCert, TLSKey: c.TLSKey, TLSClientCA: c.TLSClientCA, Insecure: c.Insecure, Hosts: c.Host,
	}
	if err := c.Valid(); err != nil {
		return usage(err)
	}
	guard, err := c.Guard()
	if err == nil {
		err = errors.Join(app.ValidKeepChanges(c.KeepChanges), c.Allowed(listen))
	}
	if err != nil {
		return usage(err)
	}
	source, err := c.Source()
	if err != nil {
		return usage(err)
	}
	var server ops.ServerOptions
	if err := c.Bound(&server); err != nil {
		return usage(err)
	}
	memory := processMemory(os.DirFS("/"))
	if memory > 0 { // jobs take half
		server.Memory = ops.NewBudget(max(app.MinMemory, min(server.Memory.Limit(), memory/4)))
	}
	collectBefore(memory)
	log := logger(r.Err, c.LogLevel)
	app.QuietHTTP(log)
	if listen.Socket, err = socketIn(c.Data, log); err != nil {
		return err
	}
	e, err := openEmbedded(ctx, embeddedOptions{
		data:        c.Data,
		listen:      listen,
		server:      server,
		health:      c.Beside(listen),
		config:      c.Config,
		concurrency: c.Concurrency,
		egress:      guard,
		egressAllow: c.EgressAllow,
		secrets:     source,
		publish:     c.PublishFlags,
		auth:        &c.AuthFlags,
		console:     c.ConsoleFlags,
		traces:      c.TraceFlags,
		logs:        c.LogFlags,
		memory:      memory,
		keepChanges: c.KeepChanges,
		log:         log,
	})
	if err != nil {
		return err
	}
	warnOfWriters(c.Data, log)
	if listen.Socket != "" {
		defer keepLogin(e.url(), listen.Socket, log)()
	}
	if err := c.greet(r, e, guard, listen.Socket); err != nil {
		r.say("penstock: %v", err) // it runs all the same
	}
	return e.run(ctx)
}

// socketIn is the path of the Unix socket in a directory; empty if there can be none.
func socketIn(data string, log *slog.Logger) (string, error) {
	path, err := filepath.Abs(filepath.Join(data, socketFile))
	switch {
	case err != nil:
		return "", fmt.Errorf("--data %s: %w", data, err)
	case !auth.KnowsPeers:
		return "", nil
	case len(path) > ops.MaxSocket:
		log.Warn("there is no Unix socket, as its path would be too long: penstock needs --token-file", "path", path,
			"token", filepath.Join(data, tokenFile))
		return "", nil
	}
	return path, nil
}

// warnOfWriters says if others may put files of theirs in place of those of a store. That may be meant so: a volume
// that only this process has may be made with such a mode.
func warnOfWriters(data string, log *slog.Logger) {
	info, err := os.Stat(data)
	if err == nil && othersWrite(info.Mode().Perm()) {
		log.Warn("others may write into the directory of the store, and put a socket of theirs there: chmod 700 it",
			"data", data, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}

// greet says where it listens, and what to paste to see it work.
func (c *upCmd) greet(r *run, e *embedded, guard *egress.Guard, socket string) error {
	url := e.url()
	infos, err := e.engine.List(r.ctx, "", 1)
	if err != nil {
		return fmt.Errorf("list the queues: %w", err)
	}
	_, _ = fmt.Fprintf(r.Out, "listening on %s\ndata in %s\n", url, c.Data)
	if c.Console {
		_, _ = fmt.Fprintf(r.Out, "console at %s%s/console/%s\n", url, c.PathPrefix, consoleToken(e.token))
	}
	_, _ = fmt.Fprintln(r.Out)
	w := &greeting{w: r.Out, url: url, socket: socket, token: e.token}
	name, pulls := "hello", false
	switch {
	case len(infos) > 0:
		name, pulls = infos[0].Spec.Name, infos[0].Spec.Pull
	case guard.Check("127.0.0.1", sinkPort) == nil:
		w.say("# in another terminal: a receiver that shows what arrives\npenstock sink\n\n")
		w.say("# make a queue: 5 a second, to that receiver\n")
		w.curl("-X PUT %s/v1/queues/hello", `{"rate":"5/s","deliver":{"http":{"url":"http://127.0.0.1:9000/"}}}`)
	default:
		pulls = true
		w.say(
			"# make a queue: 5 a second, to workers that ask for its jobs. (Targets on this machine need --egress-allow " +
				"127.0.0.1.)\n",
		)
		w.curl("-X PUT %s/v1/queues/hello", `{"rate":"5/s","pull":true}`)
	}
	w.say("# put a job into it\n")
	w.curl("%s/v1/queues/"+name+"/jobs", `{"payload":{"to":"a@example.com"}}`)
	if pulls {
		w.say("# ask for one, as a worker does\n")
		w.curl("%s/v1/queues/"+name+"/leases", `{"wait":"10s"}`)
	}
	w.say("# and watch\npenstock --server %s queue ls --watch\n", url)
	return nil
}

// consoleToken says where what the console asks for is.
func consoleToken(file string) string {
	if file == "" {
		return ""
	}
	return ", which asks for the token in " + file
}

// sinkPort is where penstock sink listens unless it is told otherwise.
const sinkPort = 9000

// greeting is what up prints to be pasted.
type greeting struct {
	w      io.Writer
	url    string
	socket string // where no token is needed; empty if there is none
	token  string // file of it; empty if none is needed
}

func (g *greeting) say(format string, args ...any) { _, _ = fmt.Fprintf(g.w, format, args...) }

// quoted is a text as a shell takes it for one word.
func quoted(s string) string { return show.Quoted(s) }

// curl prints a request with a body; the %s of path is the server. No token stands in a command line, which all users
// of a machine can see.
func (g *greeting) curl(path, body string) {
	switch {
	case g.token == "":
		g.say("curl -sS "+path, g.url)
	case g.socket != "":
		g.say("curl -sS --unix-socket %s "+path, quoted(g.socket), "http://localhost")
	default:
		g.say(`echo "Authorization: Bearer $(cat %s)" | curl -sS -H @- `+path, quoted(g.token), g.url)
	}
	g.say(" -H 'Content-Type: application/json' -d '%s'\n\n", body)
}
