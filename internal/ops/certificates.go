package ops

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Certificates are what a server shows, and whose it asks for. They are read again when their files change: connections
// that are made from then on see the new ones. What cannot be used is said once, and the old ones stay.
type Certificates struct {
	l   Listen
	log *slog.Logger

	config   atomic.Pointer[tls.Config]
	expires  atomic.Int64 // Unix seconds
	reloaded atomic.Int64
	failed   atomic.Int64
	stale    atomic.Bool
	tried    [3]file // as they were when they were last read
}

// file is what one was, or why it could not be read.
type file struct {
	text []byte
	err  string
}

// newCertificates reads them; nil if there are none.
func newCertificates(l Listen, log *slog.Logger) (*Certificates, error) {
	switch {
	case (l.TLSCert == "") != (l.TLSKey == ""):
		return nil, errors.New("--tls-cert and --tls-key belong together: give both or none")
	case l.TLSCert == "" && l.TLSClientCA != "":
		return nil, errors.New("--tls-client-ca needs --tls-cert and --tls-key: clients show certificates over TLS only")
	case l.TLSCert == "":
		return nil, nil
	}
	c := &Certificates{l: l, log: log}
	c.tried = c.read()
	config, err := c.parse()
	if err != nil {
		return nil, err
	}
	c.use(config)
	return c, nil
}

// outer is the configuration of a listener: that of each connection is what is there then.
func (c *Certificates) outer() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config.Load(), nil },
	}
}

func (c *Certificates) read() (files [3]file) {
	for i, path := range []string{c.l.TLSCert, c.l.TLSKey, c.l.TLSClientCA} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		files[i].text = text
		if err != nil {
			files[i].err = err.Error()
		}
	}
	return files
}

// parse makes a configuration of what was read last.
func (c *Certificates) parse() (*tls.Config, error) {
	cert, key, authority := c.tried[0], c.tried[1], c.tried[2]
	for _, f := range c.tried {
		if f.err != "" {
			return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %s", c.l.TLSCert, c.l.TLSKey, f.err)
		}
	}
	pair, err := tls.X509KeyPair(cert.text, key.text)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.l.TLSCert, c.l.TLSKey, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}
	if c.l.TLSClientCA != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(authority.text) {
			return nil, fmt.Errorf("--tls-client-ca %s: there is no certificate in it", c.l.TLSClientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.SessionTicketsDisabled = true // or a session would outlive the authority that let its client in
	}
	return config, nil
}

func (c *Certificates) use(config *tls.Config) {
	if leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0]); err == nil {
		c.expires.Store(leaf.NotAfter.Unix())
	}
	c.config.Store(config)
}

// check reads the files, and uses what is new in them. One goroutine calls it at a time.
func (c *Certificates) check() {
	now := c.read()
	same := true
	for i := range now {
		same = same && now[i].err == c.tried[i].err && bytes.Equal(now[i].text, c.tried[i].text)
	}
	if same {
		return
	}
	c.tried = now
	config, err := c.parse()
	if err != nil {
		c.stale.Store(true)
		c.failed.Add(1)
		c.log.Error("certificates changed and cannot be used; serving with the old ones", "error", err)
		return
	}
	c.use(config)
	c.stale.Store(false)
	c.reloaded.Add(1)
	c.log.Info("certificates changed and are in use", "expires", c.Expires())
}

// watch checks every so often until ctx ends.
func (c *Certificates) watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.check()
		}
	}
}

// Expires is when the certificate in use does.
func (c *Certificates) Expires() time.Time { return time.Unix(c.expires.Load(), 0).UTC() }

// Reloaded is how often new ones came into use.
func (c *Certificates) Reloaded() int64 { return c.reloaded.Load() }

// Failed is how often what came could not be used.
func (c *Certificates) Failed() int64 { return c.failed.Load() }

// Stale reports whether the files have something else in them than what is in use, because it cannot be used.
func (c *Certificates) Stale() bool { return c.stale.Load() }
