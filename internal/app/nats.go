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

// NATSFlags are the flags of every process that uses the overflow.
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

// LongHelp implements longHelper.
func (NATSFlags) LongHelp() map[string]string {
	return map[string]string{
		"nats": "NATS servers of the overflow, with JetStream, 2.11 or newer, such as nats://a:4222,nats://b:4222; " +
			"tls:// for TLS. Without it a job that may be deferred is refused when there is no room.",
		"nats-creds":    "Credentials file for NATS. Alternatively, put a user and password, or a token, into the URL.",
		"nats-tls-ca":   "PEM file of the certificate authorities of NATS (default: the system's).",
		"nats-tls-cert": "PEM file of the client certificate for NATS. Needs --nats-tls-key.",
		"nats-replicas": "Number of replicas of each deferred job in a JetStream cluster: 1, 3 or 5 (default ${default}). " +
			"Applied when the streams are created; existing streams with fewer are refused.",
		"nats-prefix": "Prefix of the names and subjects of the streams, for several stores on one NATS (default " +
			"${default}).",
		"nats-max-bytes": "Maximum size of the overflow on disk, applied when the streams are created (default ${default}).",
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
		errs = append(errs, errors.New("--nats is missing: the other --nats flags need it"))
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
	// natsWait is the pause before trying all servers again. The overflow stands still for so long.
	natsWait = 100 * time.Millisecond
	// natsDial is how long to try a server that may be down, before the next server.
	natsDial = 500 * time.Millisecond
	// natsRefusedWait is the pause after a refused login, which needs an operator.
	natsRefusedWait = 10 * time.Second
)

// connect connects to NATS. The connection repairs itself until it is closed, also if there is no NATS yet. It buffers
// nothing while it is broken: what cannot be sent now fails now, so that nothing in this process's memory is taken for
// stored. An error means that retrying is pointless: a bad URL or file, or a refused login.
func (f *NATSFlags) connect(name string, log *slog.Logger) (*nats.Conn, error) {
	l := &connectionLog{log: log, first: make(chan error, 1), logged: map[string]bool{}}
	// The inbox names the kind of process, so that NATS permissions can keep other users from reading its answers.
	inbox := "_INBOX." + strings.ReplaceAll(name, " ", "-")
	options := append(
		l.options(), nats.Name(name), nats.CustomInboxPrefix(inbox), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(-1), nats.Timeout(2*time.Second),
		nats.SetCustomDialer(&net.Dialer{Timeout: natsDial}), nats.PingInterval(time.Second),
		nats.MaxPingsOutstanding(2),
	)
	if f.NATSCreds != "" {
		if _, err := os.ReadFile(f.NATSCreds); err != nil { // the client reads it only when a server asks
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
	// The client has tried once, and goes on. Its first call reports why the first try failed.
	if err := <-l.first; !away(err) {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// away reports whether an error passes by itself: the server was not reached, or has too many connections.
func away(err error) bool {
	for _, passing := range []error{
		nats.ErrNoServers, nats.ErrTimeout, nats.ErrMaxAccountConnectionsExceeded,
		nats.ErrStaleConnection, io.EOF,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	// A login refused for this reason does not return ErrMaxConnectionsExceeded.
	if strings.Contains(err.Error(), nats.MAX_CONNECTIONS_ERR) {
		return true
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op != "remote error" // a TLS alert, for example about our certificate
	}
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// connectionLog logs the troubles of a connection, each kind once until it is connected again.
type connectionLog struct {
	log    *slog.Logger
	conn   atomic.Pointer[nats.Conn]
	first  chan error      // why the first try failed
	logged map[string]bool // not locked: the client calls one handler at a time
}

func (l *connectionLog) options() []nats.Option {
	return []nats.Option{
		nats.CustomReconnectDelay(l.wait),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			select {
			case l.first <- err:
			default:
			}
			if l.once("away") {
				l.log.Warn("nats is unreachable; trying again", "error", err)
			}
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil && l.once("broke") { // nil after Close
				l.log.Warn("connection to nats broke; reconnecting", "error", err)
			}
		}),
		nats.ConnectHandler(func(c *nats.Conn) {
			if len(l.logged) > 0 {
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

// once reports whether a kind of trouble has not been logged yet, and marks it as logged.
func (l *connectionLog) once(kind string) bool {
	if l.logged[kind] {
		return false
	}
	l.logged[kind] = true
	return true
}

func (l *connectionLog) connected(c *nats.Conn) {
	clear(l.logged)
	l.log.Info("connected to nats", "server", c.ConnectedUrlRedacted())
}

// wait returns the pause before all servers are tried again.
func (l *connectionLog) wait(int) time.Duration {
	if nc := l.conn.Load(); nc != nil && nc.LastError() != nil && !away(nc.LastError()) {
		return natsRefusedWait + rand.N(natsRefusedWait/4)
	}
	return natsWait + rand.N(natsWait/4)
}

// withoutURL removes URLs with a password from an error.
func withoutURL(err error, url string) error {
	text := err.Error()
	for part := range strings.SplitSeq(url, ",") {
		if part = strings.TrimSpace(part); part != "" && strings.Contains(part, "@") {
			text = strings.ReplaceAll(text, part, "(the url given)")
		}
	}
	return errors.New(text)
}
