package redisq

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles are the PEM files of a TLS client: its trusted authorities, certificate and key.
type TLSFiles struct {
	CA        string // the only trusted authorities; empty for those of the system
	Cert, Key string // of the client; both or neither
}

// Apply sets the files in a TLS configuration. The client certificate is read again for each connection, so that new
// files need no restart.
func (f TLSFiles) Apply(c *tls.Config) error {
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca: %s contains no certificate", f.CA)
		}
	}
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("cert and key belong together: give both or none")
	case f.Cert == "":
		return nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("cert %s, key %s: %w", f.Cert, f.Key, err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil { // check the files now, not at the first connection
		return err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return nil
}
