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

// Certificates are the server's certificate and the authorities of client certificates. They are reloaded when their
// files change; later connections use the new ones. If the files are invalid, an error is logged once and the old ones
// stay.
type Certificates struct {
	l   Listen
	log *slog.Logger

	config   atomic.Pointer[tls.Config]
	expires  atomic.Int64 // Unix seconds
	reloaded atomic.Int64
	failed   atomic.Int64
	stale    atomic.Bool
	tried    [3]file // the files as last read
}

// file is the content of a file, or the error of reading it.
type file struct {
	text []byte
	err  string
}

// newCertificates loads the certificates; nil if TLS is not configured.
func newCertificates(l Listen, log *slog.Logger) (*Certificates, error) {
	switch {
	case (l.TLSCert == "") != (l.TLSKey == ""):
		return nil, errors.New("--tls-cert and --tls-key must be given together")
	case l.TLSCert == "" && l.TLSClientCA != "":
		return nil, errors.New("--tls-client-ca needs --tls-cert and --tls-key: client certificates need TLS")
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

// outer returns the configuration of a listener, which picks the current configuration for each connection.
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

// parse makes a configuration from the files as last read.
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
			return nil, fmt.Errorf("--tls-client-ca %s: the file contains no certificate", c.l.TLSClientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.SessionTicketsDisabled = true // resumed sessions would skip the check against a changed authority
	}
	return config, nil
}

func (c *Certificates) use(config *tls.Config) {
	if leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0]); err == nil {
		c.expires.Store(leaf.NotAfter.Unix())
	}
	c.config.Store(config)
}

// check reads the files and applies changes. It must not be called concurrently.
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
		c.log.Error("changed certificates are invalid; still using the old ones", "error", err)
		return
	}
	c.use(config)
	c.stale.Store(false)
	c.reloaded.Add(1)
	c.log.Info("certificates reloaded", "expires", c.Expires())
}

// watch calls check at the given interval until ctx ends.
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

// Expires returns the expiry time of the certificate in use.
func (c *Certificates) Expires() time.Time { return time.Unix(c.expires.Load(), 0).UTC() }

// Reloaded returns the number of successful reloads.
func (c *Certificates) Reloaded() int64 { return c.reloaded.Load() }

// Failed returns the number of failed reloads.
func (c *Certificates) Failed() int64 { return c.failed.Load() }

// Stale reports whether the files have changed but are invalid, so that the old certificates are in use.
func (c *Certificates) Stale() bool { return c.stale.Load() }
