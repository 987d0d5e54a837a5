package deploytest

import (
	"net/url"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"
)

// provisioningFaults checks that the Grafana of compose.yaml finds its dashboards and its Prometheus, and that nobody
// can sign in.
func provisioningFaults(t *testing.T, deploy files) (found faults) {
	p, err := readCompose(t, deploy)
	if err != nil {
		found.add("compose.yaml: %v", err)
		return found
	}
	var sources struct{ Datasources []struct{ Type, URL string } }
	var providers struct {
		Providers []struct{ Options struct{ Path string } }
	}
	for name, into := range map[string]any{
		"datasources/prometheus.yaml": &sources, "dashboards/penstock.yaml": &providers,
	} {
		if err := yaml.Load([]byte(deploy["grafana/provisioning/"+name]), into); err != nil {
			found.add("%s: %v", name, err)
		}
	}
	if len(sources.Datasources) != 1 || len(providers.Providers) != 1 {
		found.add("Grafana has %d sources and %d providers", len(sources.Datasources), len(providers.Providers))
		return found
	}
	u, err := url.Parse(sources.Datasources[0].URL)
	if err != nil || p.Services[u.Hostname()].Image == "" {
		found.add("Grafana asks %s, which is no service: %v", sources.Datasources[0].URL, err)
	}
	grafana := p.Services["grafana"]
	for source, target := range map[string]string{
		"/deploy/grafana": providers.Providers[0].Options.Path, "/deploy/grafana/provisioning": "/etc/grafana/provisioning",
	} {
		if !slices.Contains(grafana.Volumes, mount{"bind", source, target}) {
			found.add("grafana: %s is not mounted at %s", source, target)
		}
	}
	if grafana.Environment["GF_AUTH_BASIC_ENABLED"] != "false" ||
		grafana.Environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] != "true" {
		found.add("grafana: its first admin has a known password")
	}
	return found
}
