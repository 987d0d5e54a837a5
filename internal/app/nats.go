package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
)

// NATSFlags are those of every process that uses the overflow.
type NATSFlags struct {
	NATS         string `placeholder:"URL,..."`
	NATSCreds    string `type:"path" placeholder:"FILE"`
	NATSTLSCA    string `name:"nats-tls-ca" type:"path" placeholder:"FILE"`
	NATSTLSCert  string `name:"nats-tls-cert" type:"path" placeholder:"FILE"`
	NATSTLSKey   string `name:"nats-tls-key" type:"path" placeholder:"FILE" help:"PEM file of its private key."`
	NATSReplicas int    `default:"1" placeholder:"N"`
	NATSPrefix   string `default:"penstock" placeholder:"NAME"`
	NATSMaxBytes string `default:"10GiB" placeholder:"SIZE"`
}

// LongHelp is the help that is too long for the tags.
func (NATSFlags) LongHelp() map[string]string {
	return map[string]string{
		"nats": "The overflow: NATS servers with JetStream, 2.11 or newer, such as nats://a:4222,nats://b:4222; " +
			"tls:// for TLS. Without it a job that may be deferred is refused when there is no room.",
		"nats-creds": "Credentials file to log in to NATS with. A user and password, or a token, may stand in the URL " +
			"instead.",
		"nats-tls-ca":   "PEM file of the authorities that NATS' certificate is checked against, instead of the system's.",
		"nats-tls-cert": "PEM file of the certificate to show to NATS. Needs --nats-tls-key.",
		"nats-replicas": "On how many nodes of a JetStream cluster each deferred job is kept: 1, 3 or 5 (default " +
			"${default}). It counts when the streams are made; streams with fewer are refused.",
		"nats-prefix": "What the streams' names and subjects begin with, for several stores on one NATS (default " +
			"${default}).",
		"nats-max-bytes": "How much the overflow may hold on disk. It counts when the streams are made (default ${default}).",
	}
}

// Validate is called by the parser.
func (f *NATSFlags) Validate() error {
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

func (f *NATSFlags) maxBytes() (int64, error) {
	n, err := humanize.ParseBytes(f.NATSMaxBytes)
	if err != nil || n < leastNATSBytes || n > 1<<60 {
		return 0, fmt.Errorf("--nats-max-bytes %s: must be a size such as 10GiB, at least 1MiB", f.NATSMaxBytes)
	}
	return int64(n), nil
}

const (
	// until a NATS that is away is tried again: for so long more the overflow stands still
	natsWait = 100 * time.Millisecond
	natsDial = 500 * time.Millisecond // for which a machine is tried that may be down, before the next
	// natsRefusedWait is the same of one that refuses the login: somebody has to mend that.
	natsRefusedWait = 10 * time.Second
)

// connect connects to NATS. The connection repairs itself for as long as it lasts, also if
// there is no NATS yet, and keeps nothing back while it is broken: what cannot be sent now
// fails now, so that nobody takes for stored what waits in this process. An error is what
// trying again does not mend: a bad URL or file, or a login that is refused.
func (f *NATSFlags) connect(name string, log *slog.Logger) (*nats.Conn, error) {
	l := &line{log: log, first: make(chan error, 1), said: map[string]bool{}}
	// Answers come to subjects of the kind of process, so that users of NATS can be kept from reading those of others.
	inbox := "_INBOX." + strings.ReplaceAll(name, " ", "-")
	options := append(
		l.options(), nats.Name(name), nats.CustomInboxPrefix(inbox), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(-1), nats.Timeout(2*time.Second),
		nats.SetCustomDialer(&net.Dialer{Timeout: natsDial}), nats.PingInterval(time.Second),
		nats.MaxPingsOutstanding(2),
	)
	if f.NATSCreds != "" {
		if _, err := os.ReadFile(f.NATSCreds); err != nil { // the client would read it only when a server asks
			return nil, err
		}
		options = append(options, nats.UserCredentials(f.NATSCreds))
	}
	if f.NATSTLSCA != "" {
		options = append(options, nats.RootCAs(f.NATSTLSCA))
	}
	if f.NATSTLSCert != "" {
		options = append(options, nats.ClientCert(f.NATSTLSCert, f.NATSTLSKey))
	}
	nc, err := nats.Connect(f.NATS, options...)
	if err != nil {
		return nil, err
	}
	l.conn.Store(nc)
	if nc.IsConnected() {
		return nc, nil
	}
	// It has tried once, and goes on. Why it failed it tells in any case, before anything else.
	if err := <-l.first; !away(err) {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// away reports whether a server was not reached, or had no place for one more: that
// passes.
func away(err error) bool {
	for _, passing := range []error{
		nats.ErrNoServers, nats.ErrTimeout, nats.ErrMaxAccountConnectionsExceeded,
		nats.ErrStaleConnection, io.EOF,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	// its ErrMaxConnectionsExceeded is not what a login that is refused so returns
	if strings.Contains(err.Error(), nats.MAX_CONNECTIONS_ERR) {
		return true
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op != "remote error" // which is the other side's word in TLS, such as on our certificate
	}
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// line is a connection as the log has it: what keeps it from being connected once, until it
// is.
type line struct {
	log   *slog.Logger
	conn  atomic.Pointer[nats.Conn]
	first chan error      // why it could not be connected at first
	said  map[string]bool // the client calls one handler at a time
}

func (l *line) options() []nats.Option {
	return []nats.Option{
		nats.CustomReconnectDelay(l.wait),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			select {
			case l.first <- err:
			default:
			}
			if l.once("away") {
				l.log.Warn("nats cannot be reached; trying again", "error", err)
			}
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil && l.once("broke") { // nil when it was closed
				l.log.Warn("the connection to nats broke; reconnecting", "error", err)
			}
		}),
		nats.ConnectHandler(func(c *nats.Conn) {
			if len(l.said) > 0 {
				l.connected(c)
			}
		}),
		nats.ReconnectHandler(l.connected),
		nats.ErrorHandler(func(c *nats.Conn, _ *nats.Subscription, err error) {
			if c.IsConnected() || l.once("refused") {
				l.log.Warn("nats reports an error", "error", err)
			}
		}),
	}
}

// once reports whether something was not said yet.
func (l *line) once(what string) bool {
	if l.said[what] {
		return false
	}
	l.said[what] = true
	return true
}

func (l *line) connected(c *nats.Conn) {
	clear(l.said)
	l.log.Info("connected to nats", "server", c.ConnectedUrlRedacted())
}

// wait is how long it is until all servers are tried again.
func (l *line) wait(int) time.Duration {
	if nc := l.conn.Load(); nc != nil && nc.LastError() != nil && !away(nc.LastError()) {
		return natsRefusedWait + rand.N(natsRefusedWait/4)
	}
	return natsWait + rand.N(natsWait/4)
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
