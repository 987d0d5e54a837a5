package app

import (
	"errors"
	"fmt"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/natstarget"
	"github.com/penstock/penstock/internal/auth"
)

// PublishFlags name the operator's own servers that targets deliver to: a Redis with asynq, and a NATS. They need not
// be the Redis of the store or the NATS of the overflow.
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

	// OpenAsynq is Open of package internal/app/asynq, in programs that deliver.
	OpenAsynq OpenAsynq `kong:"-"`
}

// LongHelp implements longHelper.
func (PublishFlags) LongHelp() map[string]string {
	return map[string]string{
		"asynq-redis": "Redis to which asynq targets release tasks, such as redis://a:6379/1, rediss:// for TLS, " +
			"or redis-sentinel://a:26379,b:26379?master=m.",
		"asynq-prefix": "Prefix of the types of all tasks that asynq targets release, such as email: or * for any. Needed " +
			"by --asynq-redis.",
		"publish-nats": "NATS to which nats targets publish, such as nats://a:4222,nats://b:4222; tls:// for TLS.",
		"publish-creds": "Credentials file for --publish-nats. Alternatively, put a user and password, or a token, into " +
			"the " +
			"URL.",
		"publish-prefix": "Prefix of all subjects that nats targets publish to, such as jobs or jobs.{app}. Needed by " +
			"--publish-nats.",
		"publish-tls-ca":   "PEM file of the certificate authorities of --publish-nats (default: the system's).",
		"publish-tls-cert": "PEM file of the client certificate for --publish-nats. Needs --publish-tls-key.",
		"asynq-tls-ca":     "PEM file of the certificate authorities of --asynq-redis (default: the system's).",
		"asynq-tls-cert":   "PEM file of the client certificate for --asynq-redis. Needs --asynq-tls-key.",
	}
}

// OpenAsynq returns the value of deliver.Options.Asynq; nil if the flags name no asynq.
type OpenAsynq func(f *PublishFlags) (func(concurrency int) deliver.Sender, error)

// Validate is called by the parser.
func (f *PublishFlags) Validate() error {
	switch {
	case f.PublishNATS == "" && f.PublishCreds+f.PublishPrefix+f.PublishTLSCA+f.PublishTLSCert+f.PublishTLSKey != "":
		return errors.New("--publish-nats is missing: the other --publish flags need it")
	case f.PublishNATS != "" && !natstarget.ValidPrefix(f.PublishPrefix):
		return fmt.Errorf(
			"--publish-prefix %q: must be tokens of letters, digits, _ and -, or {app}, with dots between, such as jobs.{app}",
			f.PublishPrefix,
		)
	}
	if f.AsynqPrefix != "" && f.AsynqRedis == "" {
		return errors.New("--asynq-redis is missing: --asynq-prefix needs it")
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

// Connect adds the servers that the flags name to a router's options. Servers may be away. The caller calls disconnect
// after closing the router.
func (f *PublishFlags) Connect(o *deliver.Options, owners *auth.Owners) (disconnect func() error, err error) {
	if f.OpenAsynq != nil {
		if o.Asynq, err = f.OpenAsynq(f); err != nil {
			return nil, err
		}
	}
	if f.PublishNATS == "" {
		return func() error { return nil }, nil
	}
	conn, err := (&NATSFlags{
		NATS: f.PublishNATS, NATSCreds: f.PublishCreds, NATSTLSCA: f.PublishTLSCA, NATSTLSCert: f.PublishTLSCert,
		NATSTLSKey: f.PublishTLSKey,
	}).connect("penstock publisher", o.Logger)
	if err != nil {
		return nil, fmt.Errorf("--publish-nats: %w", withoutURL(err, f.PublishNATS))
	}
	o.NATS = natstarget.Options{Conn: conn, Prefix: f.PublishPrefix, App: owners.App}
	return func() error { conn.Close(); return nil }, nil
}
