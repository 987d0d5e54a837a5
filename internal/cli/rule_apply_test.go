package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/penstock/penstock/internal/cli/applycmd"
	"github.com/penstock/penstock/queue"
)

// rulesOf returns functions to write a file and to apply it and compare the output, and the store.
func rulesOf(t *testing.T) (write func(text string), do func(
	code Exit, out string, args ...string,
), store queue.Engine,
) {
	t.Helper()
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write = func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do = func(code Exit, out string, args ...string) {
		t.Helper()
		r := penstock(t, "", append(args, "-f", path)...)
		if got := regexp.MustCompile(`revision \d+`).ReplaceAllString(r.out, "revision N"); r.code != code || got != out {
			t.Errorf("%v: exit %d, want %d\n%s\nwant\n%s\n%s", args, r.code, code, got, out, r.err)
		}
	}
	return write, do, store
}

const ruleFile = `queues:
  - {name: mail, rate: 1/s, rules: [mail.otp]}
rules:
  - {name: mail.otp, algorithm: sliding_log, limit: 2, period: 1m, key: "{lane}",
     overrides: {a.b: {limit: 9, period: 1m}}}
  - {name: calls, algorithm: meter, rate: 5/s}
`

// Missing rules are created and different ones changed. A dry run changes nothing.
func TestRuleApply(t *testing.T) {
	write, do, store := rulesOf(t)
	write(ruleFile)
	do(ExitDone, "rule mail.otp would be created\nrule calls would be created\n", "rule", "apply", "--dry-run")
	if rules, err := store.ListRules(t.Context(), "", 10); err != nil || len(rules) != 0 {
		t.Errorf("%+v, %v", rules, err)
	}
	do(ExitDone, "rule mail.otp created, revision N\nrule calls created, revision N\n", "rule", "apply")
	if queues, err := store.List(t.Context(), "", 10); err != nil || len(queues) != 0 {
		t.Errorf("rule apply made queues: %+v, %v", queues, err)
	}
	do(ExitDone, "rule mail.otp unchanged, revision N\nrule calls unchanged, revision N\n", "rule", "apply")
	write("rules:\n  - {name: mail.otp, algorithm: sliding_log, limit: 3, period: 1m}\n")
	const changed = `  key: {lane} -> (none)
  limit: 2 -> 3
  overrides.a.b.limit: 9 -> (none)
  overrides.a.b.period: 1m0s -> (none)
`
	do(ExitDone, "rule mail.otp would be changed\n"+changed, "rule", "apply", "--dry-run")
	do(ExitDone, "rule mail.otp changed, revision N\n"+changed, "rule", "apply")
	if rule, err := store.Rule(t.Context(), "mail.otp"); err != nil || rule.Limit != 3 || rule.Key != "" {
		t.Errorf("%+v, %v", rule, err)
	}
}

// queue apply brings the rules of the file in line first, and removes none.
func TestQueueApplyRules(t *testing.T) {
	write, do, store := rulesOf(t)
	write(ruleFile)
	do(
		ExitDone, "rule mail.otp would be created\nrule calls would be created\nmail would be created\n", "queue", "apply",
		"--dry-run",
	)
	const created = "rule mail.otp created, revision N\nrule calls created, revision N\nmail created, revision N\n"
	do(ExitDone, created, "queue", "apply")
	write("queues:\n  - {name: mail, rate: 1/s}\n")
	do(ExitDone, "mail changed, revision N\n  rules.0: mail.otp -> (none)\n", "queue", "apply", "--prune", "--yes")
	if rules, err := store.ListRules(t.Context(), "", 10); err != nil || len(rules) != 2 {
		t.Errorf("%+v, %v", rules, err)
	}
	// A file without a list is no list without items.
	do(ExitUsage, "", "rule", "apply", "--prune", "--yes")
	write("rules: []\n")
	do(ExitUsage, "", "queue", "apply", "--prune", "--yes")
	do(ExitDone, "rule calls deleted\nrule mail.otp deleted\n", "rule", "apply", "--prune", "--yes")
	if queues, err := store.List(t.Context(), "", 10); err != nil || len(queues) != 1 {
		t.Errorf("%+v, %v", queues, err)
	}
}

// Rules that are not in the file are deleted, unless a queue of any group uses them.
func TestRulePrune(t *testing.T) {
	write, do, store := rulesOf(t)
	write(ruleFile)
	const created = "rule mail.otp created, revision N\nrule calls created, revision N\nmail created, revision N\n"
	do(ExitDone, created, "queue", "apply")
	write("rules:\n  - {name: far, algorithm: gap, period: 1s}\n")
	do(ExitDone, "rule far created, revision N\n", "rule", "apply")
	expect(t, ExitDone, "rules.1: (none) -> far", "", "queue", "set", "mail", "rules.1=far")
	expect(t, ExitDone, "mail.otp far\n", "", "queue", "info", "mail")
	write("rules: []\n")
	prune := []string{"rule", "apply", "--prune"}
	do(ExitDone, `rule calls would be deleted: no queue uses it
rule far is not in the file, but mail uses it: it would be kept
rule mail.otp is not in the file, but mail uses it: it would be kept
`, append(prune, "--dry-run")...)
	do(ExitRefused, "", prune...) // without confirmation
	if rules, err := store.ListRules(t.Context(), "", 10); err != nil || len(rules) != 3 {
		t.Errorf("%+v, %v", rules, err)
	}
	var plan []applycmd.Result
	if r := penstock(t, "", append(prune, "--dry-run", "-o", "json", "-f", os.DevNull)...); r.code != ExitUsage {
		t.Errorf("%+v", r)
	}
	do(ExitRefused, `rule calls deleted
rule far is not in the file, but mail uses it: it was kept
rule mail.otp is not in the file, but mail uses it: it was kept
`, append(prune, "--yes")...)

	path := filepath.Join(t.TempDir(), "none.yaml")
	if err := os.WriteFile(path, []byte("rules: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := expect(t, ExitDone, "", "", append(prune, "--dry-run", "-o", "json", "-f", path)...)
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil || len(plan) != 2 || plan[1].Rule != "mail.otp" ||
		plan[1].Action != "left" || plan[1].Surplus.Reason != "rule_in_use" {
		t.Errorf("%v: %s", err, r.out)
	}
	expect(t, ExitUsage, "", "--yes needs --prune", "rule", "apply", "-f", path, "--yes")
}
