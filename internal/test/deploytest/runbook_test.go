package deploytest

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const (
	// runbook is the page that tells what to do about alerts, as seen from deploy.
	runbook = "../docs/runbook.md"
	// runbookURL is where people find it.
	runbookURL = "https://github.com/penstock/penstock/blob/main/docs/runbook.md#"
)

// Each alert links its section of the runbook, which says what it means and has a command, and each section has its
// alert. The commands themselves the test of the page runs.
func runbookFaults(_ *testing.T, deploy files) (found faults) {
	var a alerting
	if err := yaml.Load([]byte(deploy["prometheus/alerts.yml"]), &a, yaml.WithKnownFields()); err != nil {
		found.add("alerts.yml: %v", err)
		return found
	}
	sections := map[string]string{}
	for _, part := range strings.Split(deploy[runbook], "\n### ")[1:] {
		part, _, _ = strings.Cut(part, "\n## ")
		name, text, _ := strings.Cut(part, "\n")
		if _, twice := sections[name]; twice {
			found.add("docs/runbook.md has two sections about %s", name)
		}
		sections[name] = text
	}
	for _, group := range a.Groups {
		for _, r := range group.Rules {
			says, commands, _ := strings.Cut(sections[r.Alert], "```sh\n")
			says, _, _ = strings.Cut(says, "<!--")
			if strings.TrimSpace(says) == "" || !strings.Contains(commands, "```") {
				found.add("%s: docs/runbook.md does not say what it means, and what to do, with a command", r.Alert)
			}
			if want := runbookURL + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				found.add("%s: its runbook_url is %q, want %s", r.Alert, r.Annotations["runbook_url"], want)
			}
			delete(sections, r.Alert)
		}
	}
	for name := range sections {
		found.add("docs/runbook.md has a section about %s, and there is no such alert", name)
	}
	return found
}
