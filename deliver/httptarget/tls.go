package httptarget

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strconv"
	"strings"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/clip"
)

// TLS has the TLS settings of a target. Instead of PEM a field may have a reference to a secret with it.
type TLS struct {
	// CA has the authorities that may issue the receiver's certificate, in PEM. The default is the system's.
	CA string `json:"ca,omitempty"`
	// Cert is the client certificate, with intermediate certificates, and Key its private key; PEM.
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
	// ServerName is the name in the receiver's certificate. The default is the URL's host.
	ServerName string `json:"server_name,omitempty"`
}

func (t *TLS) check(at string) error {
	if t == nil {
		return nil
	}
	for _, part := range []struct{ name, text string }{{".ca", t.CA}, {".cert", t.Cert}, {".key", t.Key}} {
		if strings.Contains(part.text, "${") && !secrets.IsReference(part.text) {
			return setting.Error(at+part.name, "", "must be PEM, or only a reference ${secret:NAME} to it")
		}
	}
	if t.ServerName != "" && strings.Trim(strings.ToLower(t.ServerName), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return setting.Error(at+".server_name", t.ServerName, "is not a host name")
	}
	if (t.Cert == "") != (t.Key == "") {
		return setting.Error(at, "", "has one of cert and key; they belong together")
	}
	if !secrets.IsReference(t.CA) && t.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(t.CA)) {
		return setting.Error(at+".ca", "", "has no certificate in PEM")
	}
	if t.Cert == "" || secrets.IsReference(t.Cert) || secrets.IsReference(t.Key) {
		return nil
	}
	if _, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key)); err != nil {
		return setting.Error(at+".cert", "", "cannot be used with the key: "+clip.Quote(err.Error(), 120))
	}
	return nil
}

// trusts returns the settings that decide which receivers are trusted.
func (t *TLS) trusts() [2]string {
	if t == nil {
		return [2]string{}
	}
	return [2]string{t.CA, t.ServerName}
}

// fingerprint returns a text that differs for different settings.
func (t *TLS) fingerprint() string {
	if t == nil {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{t.CA, t.Cert, t.Key, t.ServerName} {
		_, _ = h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return string(h.Sum(nil))
}

// config returns base with the target's settings.
func (t *TLS) config(base *tls.Config) (*tls.Config, error) {
	if base == nil {
		base = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config := base.Clone()
	config.NextProtos = []string{"http/1.1"}
	if t == nil {
		return config, nil
	}
	config.ServerName = t.ServerName
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("deliver.http.tls.ca has no certificate in PEM")
		}
	}
	if t.Cert != "" {
		cert, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key))
		if err != nil {
			return nil, errors.New("deliver.http.tls.cert cannot be used with the key")
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}
