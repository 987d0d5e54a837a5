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

// endpoints are the variables that enable tracing.
var endpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

func env(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// wanted reports whether the environment enables tracing. It refuses values that the SDK would ignore silently.
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
			return false, misuse(name, endpoint, "must be a URL, for example http://127.0.0.1:4318")
		}
	}
	if !on {
		return false, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := env(name); protocol != "" && protocol != "http/protobuf" {
			return false, misuse(name, protocol, "must be http/protobuf, which collectors usually accept at port 4318")
		}
	}
	return true, nil
}

// exporterEnv returns an OTEL_EXPORTER_OTLP_ variable: the one for traces if set, otherwise the one for all signals.
func exporterEnv(what string) (name, value string) {
	name = "OTEL_EXPORTER_OTLP_TRACES_" + what
	if value = env(name); value == "" {
		name = "OTEL_EXPORTER_OTLP_" + what
		value = env(name)
	}
	return name, value
}

// newSender configures a sender from the environment. The default collector is on this machine.
func newSender() (*sender, error) {
	s := &sender{url: "http://localhost:4318/v1/traces", headers: http.Header{"User-Agent": {"penstock/" + ops.Version}}}
	if name, endpoint := exporterEnv("ENDPOINT"); name == endpoints[0] && endpoint != "" {
		s.url = endpoint
	} else if endpoint != "" {
		s.url = strings.TrimRight(endpoint, "/") + "/v1/traces"
	}
	timeout := 10 * time.Second
	if name, text := exporterEnv("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 || ms > 3_600_000 {
			return nil, misuse(name, text, "must be a number of milliseconds from 1 to 3600000")
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	switch name, text := exporterEnv("COMPRESSION"); text {
	case "", "none":
	case "gzip":
		s.compress = true
	default:
		return nil, misuse(name, text, "must be gzip or none")
	}
	name, text := exporterEnv("HEADERS")
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil || key == "" || plain == "" {
			return nil, ops.Misuse(fmt.Errorf("%s: must have the form NAME=VALUE,NAME=VALUE", name)) // the values may be secrets
		}
		s.headers.Set(key, plain)
	}
	trusted, err := exporterTLS()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trusted
	s.client = &http.Client{Transport: transport, Timeout: timeout}
	return s, nil
}

// exporterTLS returns the collector's authorities and the client certificate.
func exporterTLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if name, path := exporterEnv("CERTIFICATE"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, ops.Misuse(fmt.Errorf("%s: %w", name, err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, misuse(name, path, "must be a file of PEM certificates")
		}
	}
	name, path := exporterEnv("CLIENT_CERTIFICATE")
	if _, key := exporterEnv("CLIENT_KEY"); path != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(path, key)
		if err != nil {
			return nil, ops.Misuse(fmt.Errorf("%s and its key: %w", name, err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// maxPending returns the maximum number of waiting spans: OTEL_BSP_MAX_QUEUE_SIZE, by default 2,048.
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
