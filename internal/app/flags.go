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
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// ErrHelp is the error of a program that was only asked for its help or version, and has printed it.
var ErrHelp = errors.New("help requested")

// storeFlags are the flags of every process that uses a store.
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

// LongHelp implements longHelper.
func (storeFlags) LongHelp() map[string]string {
	return map[string]string{
		"redis": "URL of the store: redis://[USER:PASSWORD@]HOST:PORT[/DB], unix:///PATH, " +
			"redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT; rediss " +
			"instead of redis for TLS.",
		"init": "Create the store on an empty Redis. Without --init an empty Redis is an error, because it may have been " +
			"flushed.",
		"partitions": "Number of partitions of the store; on a Cluster, the maximum number of nodes that share the work. " +
			"Fixed when the store is created (default ${default}).",
		"config": "YAML file of rules and queues. Missing ones are created; differences are reported and left " +
			"unchanged.",
		"listen":        "${listenhelp} (default ${default}). Beyond loopback only with TLS or --insecure.",
		"tls-cert":      "PEM file of the server's certificate. Needs --tls-key.",
		"tls-client-ca": "PEM file of certificate authorities: clients must show a certificate from them. Needs --tls-cert.",
		"insecure":      "Listen beyond loopback without TLS. Only for trusted networks.",
		"queue-labels":  "Number of queues with metrics of their own; all others share one label (default ${default}).",
		"log-level":     "Minimum log level: debug, info, warn or error (default ${default}).",
		"log-format":    "Format of the log on standard error: text or json (default ${default}).",
	}
}

// newParser returns a parser of cli. Every flag has an environment variable.
func newParser(
	cli any, name, about string, stdout, stderr io.Writer, vars kong.Vars, exit func(int),
) (*kong.Kong, error) {
	vars["version"] = ops.Version
	return kong.New(cli, kong.Name(name), kong.Description(about), kong.Writers(stdout, stderr), kong.Exit(exit),
		kong.DefaultEnvars("PENSTOCK"), kong.PostBuild(SetLongHelp), vars)
}

// parse reads flags and environment into cli.
func parse(cli any, name, about string, args []string, stdout, stderr io.Writer, vars kong.Vars) (err error) {
	// After showing its help the parser calls exit; a panic leaves it instead.
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
		return ops.Misuse(fmt.Errorf("%w; see %s --help", err, name))
	}
	return nil
}

// noGrace stands for --grace 0 in options whose zero means their default. It is long enough for a call to the store
// that is under way, so that the jobs it grants are given back.
const noGrace = 50 * time.Millisecond

// graceOption returns the value of --grace as an option.
func graceOption(flag time.Duration) time.Duration {
	if flag == 0 {
		return noGrace
	}
	return flag
}

// Validate is called by the parser. It rejects 0, which would mean the default in Options.
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
	_ = level.UnmarshalText([]byte(strings.ToUpper(f.LogLevel))) // the parser has checked it
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: durationsAsText}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// validTarget checks the deliver part of a queue's spec.
type validTarget = func(name string, raw json.RawMessage) error

// targets returns the guard of targets, the source of secrets, and the check of a target by both.
func (f *storeFlags) targets() (guard *egress.Guard, source secrets.Source, valid validTarget, err error) {
	if guard, err = f.Guard(); err == nil {
		source, err = f.Source()
	}
	return guard, source, ValidTarget(guard, source), err
}

// durationsAsText writes durations as text such as 2.5ms, in JSON too: a number would have no unit.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
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

// storeOpener returns the function that opens the store, for BaseOptions.
func (f *storeFlags) storeOpener(
	keepChanges time.Duration, log *slog.Logger,
) func(context.Context, prometheus.Registerer) (queue.Engine, error) {
	return func(ctx context.Context, reg prometheus.Registerer) (queue.Engine, error) {
		QuietRedis(log)
		QuietHTTP(log)
		hook, err := metrics.NewHook(reg)
		if err != nil {
			return nil, err
		}
		return store.Open(ctx, store.Options{
			RedisURL: f.Redis, Init: f.Init, Partitions: f.Partitions, KeepChanges: keepChanges, Hook: hook, Logger: log,
		})
	}
}
