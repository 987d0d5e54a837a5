package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// ErrHelp says that help or the version was asked for and given.
var ErrHelp = errors.New("help was asked for")

// storeFlags are those of every process that uses a store.
type storeFlags struct {
	Redis      string `required:"" placeholder:"URL"`
	Init       bool
	Partitions int    `default:"16" placeholder:"N"`
	Config     string `type:"path" placeholder:"FILE"`

	EgressFlags
	SecretsFlags
	TraceFlags

	Listen string `default:"${listen}" placeholder:"HOST:PORT"`
	HostFlags
	TLSCert     string `type:"path" placeholder:"FILE"`
	TLSKey      string `type:"path" placeholder:"FILE" help:"PEM file of its private key."`
	TLSClientCA string `name:"tls-client-ca" type:"path" placeholder:"FILE"`
	Insecure    bool

	QueueLabels int    `default:"200" placeholder:"N"`
	LogLevel    string `enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL"`
	LogFormat   string `enum:"text,json" default:"text" placeholder:"FORMAT"`

	Version kong.VersionFlag `env:"-" help:"Print the version and exit."`
}

// LongHelp is the help that is too long for the tags.
func (storeFlags) LongHelp() map[string]string {
	return map[string]string{
		"redis": "The store: redis://[USER:PASSWORD@]HOST:PORT[/DB], unix:///PATH, " +
			"redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT; rediss " +
			"instead of redis for TLS.",
		"init": "Make a store of an empty Redis. Without it an empty Redis is an error, because one that held jobs " +
			"and is empty was flushed.",
		"partitions": "How many parts the store has, on a Cluster the most nodes that can share the work. Fixed when the " +
			"store is made (default ${default}).",
		"config": "YAML file of rules and queues. Those that are missing are made; those that differ are reported " +
			"and left alone.",
		"listen":        "${listenhelp} (default ${default}). Beyond loopback only with TLS or --insecure.",
		"tls-cert":      "PEM file of the certificate to serve with. Needs --tls-key.",
		"tls-client-ca": "PEM file of authorities: only clients with a certificate of theirs are served. Needs --tls-cert.",
		"insecure": "Listen beyond loopback without TLS. For networks where everybody may append jobs and change " +
			"queues.",
		"queue-labels": "How many queues have metrics of their own; all others share one label (default ${default}).",
		"log-level":    "The least that is logged: debug, info, warn or error (default ${default}).",
		"log-format":   "How it is written to standard error: text or json (default ${default}).",
	}
}

// newParser makes a parser of cli. Every flag has an environment variable.
func newParser(
	cli any, name, about string, stdout, stderr io.Writer, vars kong.Vars, exit func(int),
) (*kong.Kong, error) {
	vars["version"] = ops.Version
	return kong.New(cli, kong.Name(name), kong.Description(about), kong.Writers(stdout, stderr), kong.Exit(exit),
		kong.DefaultEnvars("PENSTOCK"), kong.PostBuild(SetLongHelp), vars)
}

// parse reads flags and environment into cli.
func parse(cli any, name, about string, args []string, stdout, stderr io.Writer, vars kong.Vars) (err error) {
	// The parser wants to exit when it has shown its help; it is left in this way instead.
	type exit struct{}
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(exit); !ours {
				panic(r)
			}
			err = ErrHelp
		}
	}()
	parser, err := newParser(cli, name, about, stdout, stderr, vars, func(int) { panic(exit{}) })
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return ops.Misuse(fmt.Errorf("%w; %s --help tells what there is", err, name))
	}
	return nil
}

// noGrace stands for --grace 0 in options whose zero means their default. It is long enough for
// a call to the store that is under way: what it granted is given back, and need not run its lease out.
const noGrace = 50 * time.Millisecond

// graceOption is the option for what --grace says.
func graceOption(flag time.Duration) time.Duration {
	if flag == 0 {
		return noGrace
	}
	return flag
}

// Validate is called by the parser. Zero would mean the default further in, and
// nobody who writes 0 means that.
func (f *storeFlags) Validate() error {
	return errors.Join(f.Valid(), atLeastOne("--partitions", f.Partitions), atLeastOne("--queue-labels", f.QueueLabels))
}

func atLeastOne(flag string, value int) error {
	if value < 1 {
		return fmt.Errorf("%s %d: must be at least 1", flag, value)
	}
	return nil
}

func notNegative(flag string, value time.Duration) error {
	if value < 0 {
		return fmt.Errorf("%s %v: must not be negative; 0 means none", flag, value)
	}
	return nil
}

func (f *storeFlags) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(strings.ToUpper(f.LogLevel))) // the flag takes no other
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: spelled}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// validTarget checks the deliver part of a queue's spec.
type validTarget = func(name string, raw json.RawMessage) error

// targets are where targets may be, where secrets are and may go, and the check of both.
func (f *storeFlags) targets() (guard *egress.Guard, source secrets.Source, valid validTarget, err error) {
	if guard, err = f.Guard(); err == nil {
		source, err = f.Source()
	}
	return guard, source, ValidTarget(guard, source), err
}

// spelled writes durations as text, such as 2.5ms, in JSON too: a number would be of nanoseconds, and not say so.
func spelled(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func (f *storeFlags) listenOn(guard *egress.Guard) ops.Listen {
	return ops.Listen{
		Addr: f.Listen, TLSCert: f.TLSCert, TLSKey: f.TLSKey, TLSClientCA: f.TLSClientCA,
		Insecure: f.Insecure, Hosts: f.Host, Bound: guard.Protect,
	}
}

// open opens the store and makes the file's rules and queues. The file is read first, so
// that a mistake in it touches nothing.
func (f *storeFlags) open(
	ctx context.Context, valid validTarget, reg prometheus.Registerer, keepChanges time.Duration, log *slog.Logger,
) (queue.Engine, error) {
	var file config.File
	if f.Config != "" {
		var err error
		if file, err = config.Load(f.Config, valid); err != nil {
			return nil, ops.Misuse(fmt.Errorf("--config: %w", err))
		}
	}
	QuietRedis(log)
	QuietHTTP(log)
	hook, err := metrics.NewHook(reg)
	if err != nil {
		return nil, err
	}
	engine, err := store.Open(ctx,
		store.Options{
			RedisURL: f.Redis, Init: f.Init, Partitions: f.Partitions, KeepChanges: keepChanges, Hook: hook,
			Logger: log,
		})
	if err != nil {
		return nil, err
	}
	if _, err := config.Apply(ctx, engine, file, log); err != nil {
		return nil, errors.Join(fmt.Errorf("--config %s: %w", f.Config, err), engine.Close())
	}
	return engine, nil
}
