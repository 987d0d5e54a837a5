package tracing

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/ops"
)

// endpoints are the variables either of which turns tracing on.
var endpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

func env(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// wanted reports whether the environment asks for traces. The SDK reads variables of its own besides; what it would
// pass over in silence is refused here.
func wanted() (bool, error) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	exporter := env("OTEL_TRACES_EXPORTER")
	switch exporter {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		return false, misuse("OTEL_TRACES_EXPORTER", exporter, "must be otlp or none")
	}
	on := exporter == "otlp"
	for _, name := range endpoints {
		endpoint := env(name)
		if endpoint == "" {
			continue
		}
		on = true
		if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return false, misuse(name, endpoint, "must be a URL such as http://127.0.0.1:4318")
		}
	}
	if !on {
		return false, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := env(name); protocol != "" && protocol != "http/protobuf" {
			return false, misuse(name, protocol, "must be http/protobuf; receivers take that at port 4318, as a rule")
		}
	}
	return true, nil
}

// ofReceiver is the variable about the receiver that is set: that of traces alone, or that of all that is exported.
func ofReceiver(what string) (name, value string) {
	name = "OTEL_EXPORTER_OTLP_TRACES_" + what
	if value = env(name); value == "" {
		name = "OTEL_EXPORTER_OTLP_" + what
		value = env(name)
	}
	return name, value
}

// newSender reads where and how spans are sent; by default to this machine.
func newSender() (*sender, error) {
	s := &sender{url: "http://localhost:4318/v1/traces", headers: http.Header{"User-Agent": {"penstock/" + ops.Version}}}
	if name, endpoint := ofReceiver("ENDPOINT"); name == endpoints[0] && endpoint != "" {
		s.url = endpoint
	} else if endpoint != "" {
		s.url = strings.TrimRight(endpoint, "/") + "/v1/traces"
	}
	timeout := 10 * time.Second
	if name, text := ofReceiver("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 || ms > 3_600_000 {
			return nil, misuse(name, text, "must be a number of milliseconds, from 1 to 3600000")
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	switch name, text := ofReceiver("COMPRESSION"); text {
	case "", "none":
	case "gzip":
		s.compress = true
	default:
		return nil, misuse(name, text, "must be gzip or none")
	}
	name, text := ofReceiver("HEADERS")
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil || key == "" || plain == "" {
			return nil, ops.Misuse(fmt.Errorf("%s: must be as NAME=VALUE,NAME=VALUE", name)) // values may be secrets
		}
		s.headers.Set(key, plain)
	}
	trusted, err := tlsOfReceiver()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trusted
	s.client = &http.Client{Transport: transport, Timeout: timeout}
	return s, nil
}

// tlsOfReceiver is whom the sender trusts, and who it is.
func tlsOfReceiver() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if name, path := ofReceiver("CERTIFICATE"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, ops.Misuse(fmt.Errorf("%s: %w", name, err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, misuse(name, path, "must be a file of certificates (PEM)")
		}
	}
	name, path := ofReceiver("CLIENT_CERTIFICATE")
	if _, key := ofReceiver("CLIENT_KEY"); path != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(path, key)
		if err != nil {
			return nil, ops.Misuse(fmt.Errorf("%s and its key: %w", name, err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// maxPending is how many spans may wait to be sent: OTEL_BSP_MAX_QUEUE_SIZE, 2,048 by default.
func maxPending() (int, error) {
	const name = "OTEL_BSP_MAX_QUEUE_SIZE"
	text := env(name)
	if text == "" {
		return 2048, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, misuse(name, text, "must be a number from 1 to 1000000")
	}
	return n, nil
}

func misuse(name, value, must string) error {
	return ops.Misuse(fmt.Errorf("%s %q: %s", name, value, must))
}
