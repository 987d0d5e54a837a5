package preset

import (
	"slices"
	"strings"
	"testing"
)

func TestPresets(t *testing.T) {
	if want := []string{"anthropic", "github", "openai", "sendgrid", "shopify", "twilio"}; !slices.Equal(Names(), want) {
		t.Errorf("the presets are %v, want %v", Names(), want)
	}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if len(p.Secrets) != 1 || p.About == "" || strings.HasPrefix(p.About, "#") {
			t.Errorf("%s: %q has the secrets %v", p.Name, p.About, p.Secrets)
		}
		before := map[string]any{"rate": "7/s", "deliver": map[string]any{"nats": map[string]any{}}, "capacity": 5}
		spec, err := p.Over(before)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		target := spec["deliver"].(map[string]any)["http"].(map[string]any)
		url, _ := target["url"].(string)
		if spec["rate"] != "7/s" || spec["capacity"] != 5 || spec["pull"] != true || spec["name"] != nil ||
			!strings.HasPrefix(url, "https://") || len(target["headers"].(map[string]any)) != 1 ||
			target["statuses"].(map[string]any)["429"] != "throttled" || target["timeout"] == nil {
			t.Errorf("%s: %v", p.Name, spec)
		}
		if err := p.CheckURL(spec); (err == nil) == (p.Name == "shopify") {
			t.Errorf("%s: %v", p.Name, err)
		}
		if before["pull"] != nil || before["deliver"].(map[string]any)["http"] != nil {
			t.Errorf("%s changed the spec in place: %v", p.Name, before)
		}
	}
}

func TestUnknownPreset(t *testing.T) {
	for name, want := range map[string]string{
		"opnai": "openai?", "": "anthropic, github, openai, sendgrid, shopify, twilio",
		strings.Repeat("x", 1000): "...", "../openai": "the presets are", "openai.yaml": "the presets are",
	} {
		if p, err := Find(name); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%.20q: %v, %v", name, p, err)
		}
	}
}
