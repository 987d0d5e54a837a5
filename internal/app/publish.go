package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/natstarget"
	"github.com/penstock/penstock/internal/auth"
)

// PublishFlags say where targets deliver that are the operator's own. None of them need be what
// the store and the overflow are on.
type PublishFlags struct {
	AsynqRedis     string `placeholder:"URL"`
	AsynqPrefix    string `placeholder:"TASK"`
	PublishNATS    string `name:"publish-nats" placeholder:"URL,..."`
	PublishCreds   string `type:"path" placeholder:"FILE"`
	PublishPrefix  string `placeholder:"SUBJECT"`
	PublishTLSCA   string `name:"publish-tls-ca" type:"path" placeholder:"FILE"`
	PublishTLSCert string `name:"publish-tls-cert" type:"path" placeholder:"FILE"`
	PublishTLSKey  string `name:"publish-tls-key" type:"path" placeholder:"FILE" help:"PEM file of its private key."`
	AsynqTLSCA     string `name:"asynq-tls-ca" type:"path" placeholder:"FILE"`
	AsynqTLSCert   string `name:"asynq-tls-cert" type:"path" placeholder:"FILE"`
	AsynqTLSKey    string `name:"asynq-tls-key" type:"path" placeholder:"FILE" help:"PEM file of its private key."`

	// OpenAsynq is Open of package internal/app/asynq, in a program that delivers.
	OpenAsynq OpenAsynq `kong:"-"`
}

// LongHelp is the help that is too long for the tags.
func (PublishFlags) LongHelp() map[string]string {
	return map[string]string{
		"asynq-redis": "Redis that asynq targets release their tasks into, such as redis://a:6379/1, rediss:// for TLS, " +
			"or redis-sentinel://a:26379,b:26379?master=m.",
		"asynq-prefix": "What the type of every task begins with that they release, such as email: or * for any. Needed by " +
			"--asynq-redis.",
		"publish-nats": "NATS that nats targets publish to, such as nats://a:4222,nats://b:4222; tls:// for TLS.",
		"publish-creds": "Credentials file to log in to that NATS with. A user and password, or a token, may stand in the " +
			"URL instead.",
		"publish-prefix": "What every subject begins with that they publish to, such as jobs or jobs.{app}: nothing " +
			"outside of it can be reached. Needed by --publish-nats.",
		"publish-tls-ca": "PEM file of the authorities that the certificate of that NATS is checked against, instead of " +
			"the system's.",
		"publish-tls-cert": "PEM file of the certificate to show to that NATS. Needs --publish-tls-key.",
		"asynq-tls-ca": "PEM file of the authorities that the certificate of --asynq-redis is checked against, instead of " +
			"the system's.",
		"asynq-tls-cert": "PEM file of the certificate to show to it. Needs --asynq-tls-key.",
	}
}

// OpenAsynq returns what deliver.Options.Asynq takes, nil if the flags name no asynq.
type OpenAsynq func(f *PublishFlags) (func(concurrency int) deliver.Sender, error)

// Validate is called by the parser.
func (f *PublishFlags) Validate() error {
	switch {
	case f.PublishNATS == "" && f.PublishCreds+f.PublishPrefix+f.PublishTLSCA+f.PublishTLSCert+f.PublishTLSKey != "":
		return errors.New("--publish-nats is missing: the other --publish flags are of no use without it")
	case f.PublishNATS != "" && !natstarget.ValidPrefix(f.PublishPrefix):
		return fmt.Errorf(
			"--publish-prefix %q: must be tokens of letters, digits, _ and -, or {app}, with dots between, such as jobs.{app}",
			f.PublishPrefix,
		)
	}
	if f.AsynqPrefix != "" && f.AsynqRedis == "" {
		return errors.New("--asynq-redis is missing: --asynq-prefix is of no use without it")
	}
	if (f.PublishTLSCert == "") != (f.PublishTLSKey == "") {
		return errors.New("--publish-tls-cert and --publish-tls-key need each other")
	}
	if f.OpenAsynq == nil {
		return nil
	}
	_, err := f.OpenAsynq(f)
	return err
}

// Connect puts into a router's options what the flags name. Servers may be away. End it with done, when the router is
// closed.
func (f *PublishFlags) Connect(
	o *deliver.Options, owners *auth.Owners, log *slog.Logger,
) (done func(), err error) {
	if f.OpenAsynq != nil {
		if o.Asynq, err = f.OpenAsynq(f); err != nil {
			return func() {}, err
		}
	}
	if f.PublishNATS == "" {
		return func() {}, nil
	}
	conn, err := (&NATSFlags{
		NATS: f.PublishNATS, NATSCreds: f.PublishCreds, NATSTLSCA: f.PublishTLSCA, NATSTLSCert: f.PublishTLSCert,
		NATSTLSKey: f.PublishTLSKey,
	}).connect("penstock publisher", log)
	if err != nil {
		return nil, fmt.Errorf("--publish-nats: %w", withoutURL(err, f.PublishNATS))
	}
	o.NATS = natstarget.Options{Conn: conn, Prefix: f.PublishPrefix, App: owners.App}
	return conn.Close, nil
}
