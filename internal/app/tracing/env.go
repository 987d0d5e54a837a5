package tracing

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/ops"
)

// endpoints are the variables either of which turns tracing on.
var endpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

func env(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// wanted reports whether the environment asks for traces. The exporter and its SDK read the rest of the variables
// themselves; what they would pass over in silence is refused here.
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
		switch protocol := env(name); protocol {
		case "", "http/protobuf", "http/json":
		default:
			return false, misuse(name, protocol,
				"must be http/protobuf or http/json; receivers take that at port 4318, as a rule")
		}
	}
	return true, nil
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
