package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
)

// natsFlags are those of every process that uses the overflow.
type natsFlags struct {
	NATS         string `placeholder:"URL,..." help:"The overflow: NATS servers with JetStream, 2.11 or newer, such as nats://a:4222,nats://b:4222; tls:// for TLS. Without it a job that may be deferred is refused when there is no room."`
	NATSCreds    string `type:"path" placeholder:"FILE" help:"Credentials file to log in to NATS with. A user and password, or a token, may stand in the URL instead."`
	NATSTLSCA    string `name:"nats-tls-ca" type:"path" placeholder:"FILE" help:"PEM file of the authorities that NATS' certificate is checked against, instead of the system's."`
	NATSTLSCert  string `name:"nats-tls-cert" type:"path" placeholder:"FILE" help:"PEM file of the certificate to show to NATS. Needs --nats-tls-key."`
	NATSTLSKey   string `name:"nats-tls-key" type:"path" placeholder:"FILE" help:"PEM file of its private key."`
	NATSReplicas int    `default:"1" placeholder:"N" help:"On how many nodes of a JetStream cluster each deferred job is kept: 1, 3 or 5 (default ${default}). It counts when the streams are made; streams with fewer are refused."`
	NATSPrefix   string `default:"penstock" placeholder:"NAME" help:"What the streams' names and subjects begin with, for several stores on one NATS (default ${default})."`
	NATSMaxBytes string `default:"10GiB" placeholder:"SIZE" help:"How much the overflow may hold on disk. It counts when the streams are made (default ${default})."`
}

// Validate is called by the parser.
func (f *natsFlags) Validate() error {
	var errs []error
	if (f.NATSTLSCert == "") != (f.NATSTLSKey == "") {
		errs = append(errs, errors.New("--nats-tls-cert and --nats-tls-key need each other"))
	}
	if f.NATSReplicas != 1 && f.NATSReplicas != 3 && f.NATSReplicas != 5 {
		errs = append(errs, fmt.Errorf("--nats-replicas %d: must be 1, 3 or 5", f.NATSReplicas))
	}
	if _, err := f.maxBytes(); err != nil {
		errs = append(errs, err)
	}
	if f.NATS == "" && (f.NATSCreds != "" || f.NATSTLSCA != "" || f.NATSTLSCert != "") {
		errs = append(errs, errors.New("--nats is missing: the other --nats flags are of no use without it"))
	}
	return errors.Join(errs...)
}

const leastNATSBytes = 1 << 20

func (f *natsFlags) maxBytes() (int64, error) {
	n, err := humanize.ParseBytes(f.NATSMaxBytes)
	if err != nil || n < leastNATSBytes || n > 1<<60 {
		return 0, fmt.Errorf("--nats-max-bytes %s: must be a size such as 10GiB, at least 1MiB", f.NATSMaxBytes)
	}
	return int64(n), nil
}

// natsTimeout is how long a start waits for NATS.
const natsTimeout = 10 * time.Second

// connect connects to NATS. The connection repairs itself for as long as it lasts,
// and keeps nothing back while it is broken: what cannot be sent now fails now, so
// that nobody takes for stored what waits in this process.
func (f *natsFlags) connect(ctx context.Context, name string, log *slog.Logger) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectBufSize(-1),
		nats.Timeout(2 * time.Second), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil when it was closed
				log.Warn("the connection to nats broke; reconnecting", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { log.Info("connected to nats again", "server", c.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			log.Warn("nats reports an error", "error", err)
		}),
	}
	if f.NATSCreds != "" {
		options = append(options, nats.UserCredentials(f.NATSCreds))
	}
	if f.NATSTLSCA != "" {
		options = append(options, nats.RootCAs(f.NATSTLSCA))
	}
	if f.NATSTLSCert != "" {
		options = append(options, nats.ClientCert(f.NATSTLSCert, f.NATSTLSKey))
	}
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	for {
		nc, err := nats.Connect(f.NATS, options...)
		if err == nil {
			return nc, nil
		}
		if !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) { // such as a bad URL or file, or a refused login
			return nil, fmt.Errorf("--nats: %w", withoutURL(err, f.NATS))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("--nats: no server answered within %v: %w", natsTimeout, withoutURL(err, f.NATS))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// withoutURL keeps a password that stands in the URL out of an error.
func withoutURL(err error, url string) error {
	text := err.Error()
	for part := range strings.SplitSeq(url, ",") {
		if part = strings.TrimSpace(part); part != "" && strings.Contains(part, "@") {
			text = strings.ReplaceAll(text, part, "(the url given)")
		}
	}
	return errors.New(text)
}
