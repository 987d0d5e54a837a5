package deploytest

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	variableInText = regexp.MustCompile(`\bPENSTOCK_[A-Z][A-Z_]*[A-Z]\b`)
	metricInText   = regexp.MustCompile(`\bpenstock_[a-z_]+[a-z]\b`)
	flagInText     = regexp.MustCompile("`[^`\n]*--[a-z][^`\n]*`")
	flagAlone      = regexp.MustCompile(`(?:^|[ (\[])--([a-z][a-z-]*)`)
	linkInText     = regexp.MustCompile(`\]\(([^)#:]+)\)`)
)

// README.md tells of every file, and of no variable, flag or metric that is not there.
func readmeFaults(t *testing.T, deploy files) (found faults) {
	text := deploy["README.md"]
	for name := range deploy {
		if strings.HasPrefix(name, "helm/") { // the chart has a README.md of its own
			continue
		}
		if base := path.Base(name); base != "README.md" && path.Ext(base) != ".go" && !strings.Contains(text, base) {
			found.add("README.md does not tell of %s", name)
		}
	}
	// Known to compose.yaml, to penstock, and as the names of the overflow's streams.
	variables := map[string]bool{
		"PENSTOCK_TAG": true, "PENSTOCK_REDIS_PASSWORD": true, "PENSTOCK_URL": true, "PENSTOCK_DEFERRED": true,
		"PENSTOCK_DEAD": true,
	}
	flags := map[string]bool{}
	for _, p := range programs() {
		for variable, flag := range p.flags {
			variables[variable], flags[flag] = true, true
		}
	}
	for _, variable := range variableInText.FindAllString(text, -1) {
		if !variables[variable] {
			found.add("README.md names %s, which no program knows", variable)
		}
	}
	for _, code := range flagInText.FindAllString(text, -1) {
		for _, m := range flagAlone.FindAllStringSubmatch(strings.Trim(code, "`"), -1) {
			if ours := strings.HasPrefix(code, "`--"); ours && !flags[m[1]] {
				found.add("README.md names --%s, which no program knows", m[1])
			}
		}
	}
	known := metrics(t)
	for _, name := range metricInText.FindAllString(text, -1) {
		if _, ok := known[name]; !ok {
			found.add("README.md names %s, which docs/metrics.md does not", name)
		}
	}
	for _, link := range linkInText.FindAllStringSubmatch(text, -1) {
		if target := path.Join("deploy", link[1]); !strings.HasPrefix(target, "deploy/") {
			read(t, target)
		} else if _, ok := deploy[link[1]]; !ok {
			found.add("README.md links to %s, which is not there", link[1])
		}
	}
	return found
}
