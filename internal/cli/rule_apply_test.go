package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/penstock/penstock/queue"
)

// rulesOf returns how to write a file, how to apply it and compare what is printed, and the store.
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

// Rules are made, and changed where they differ; a dry run only tells.
func TestRuleApply(t *testing.T) {
	write, do, store := rulesOf(t)
	write(ruleFile)
	do(ExitDone, "rule mail.otp would be made\nrule calls would be made\n", "rule", "apply", "--dry-run")
	if rules, err := store.ListRules(t.Context(), "", 10); err != nil || len(rules) != 0 {
		t.Errorf("%+v, %v", rules, err)
	}
	do(ExitDone, "rule mail.otp made, revision N\nrule calls made, revision N\n", "rule", "apply")
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
		ExitDone, "rule mail.otp would be made\nrule calls would be made\nmail would be made\n", "queue", "apply",
		"--dry-run",
	)
	do(ExitDone, "rule mail.otp made, revision N\nrule calls made, revision N\nmail made, revision N\n", "queue", "apply")
	write("queues:\n  - {name: mail, rate: 1/s}\n")
	do(ExitDone, "mail changed, revision N\n  rules.0: mail.otp -> (none)\n", "queue", "apply", "--prune", "--yes")
	if rules, err := store.ListRules(t.Context(), "", 10); err != nil || len(rules) != 2 {
		t.Errorf("%+v, %v", rules, err)
	}
	// A file without a list is no list without items.
	do(ExitUsage, "", "rule", "apply", "--prune", "--yes")
	write("rules: []\n")
	do(ExitUsage, "", "queue", "apply", "--prune", "--yes")
	do(ExitDone, "rule calls removed\nrule mail.otp removed\n", "rule", "apply", "--prune", "--yes")
	if queues, err := store.List(t.Context(), "", 10); err != nil || len(queues) != 1 {
		t.Errorf("%+v, %v", queues, err)
	}
}

// Rules that are not in the file are removed, but for those that a queue asks, of whichever group.
func TestRulePrune(t *testing.T) {
	write, do, store := rulesOf(t)
	write(ruleFile)
	do(ExitDone, "rule mail.otp made, revision N\nrule calls made, revision N\nmail made, revision N\n", "queue", "apply")
	write("rules:\n  - {name: far, algorithm: gap, period: 1s}\n")
	do(ExitDone, "rule far made, revision N\n", "rule", "apply")
	expect(t, ExitDone, "rules.1: (none) -> far", "", "queue", "set", "mail", "rules.1=far")
	expect(t, ExitDone, "mail.otp far\n", "", "queue", "info", "mail")
	write("rules: []\n")
	prune := []string{"rule", "apply", "--prune"}
	do(ExitDone, `rule calls would be removed: no queue asks it
rule far is not in the file, is asked by mail, and would be left alone
rule mail.otp is not in the file, is asked by mail, and would be left alone
`, append(prune, "--dry-run")...)
	do(ExitRefused, "", prune...) // nobody says yes
	if rules, err := store.ListRules(t.Context(), "", 10); err != nil || len(rules) != 3 {
		t.Errorf("%+v, %v", rules, err)
	}
	var plan []applied
	if r := penstock(t, "", append(prune, "--dry-run", "-o", "json", "-f", os.DevNull)...); r.code != ExitUsage {
		t.Errorf("%+v", r)
	}
	do(ExitRefused, `rule calls removed
rule far is not in the file, is asked by mail, and was left alone
rule mail.otp is not in the file, is asked by mail, and was left alone
`, append(prune, "--yes")...)

	path := filepath.Join(t.TempDir(), "none.yaml")
	if err := os.WriteFile(path, []byte("rules: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := expect(t, ExitDone, "", "", append(prune, "--dry-run", "-o", "json", "-f", path)...)
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil || len(plan) != 2 || plan[1].Rule != "mail.otp" ||
		plan[1].Action != actionLeft || plan[1].Surplus.Reason != "rule_in_use" {
		t.Errorf("%v: %s", err, r.out)
	}
	expect(t, ExitUsage, "", "--yes is for --prune", "rule", "apply", "-f", path, "--yes")
}

// One that a queue asks by now is left alone, one that was changed is told.
func TestRulePruneLeavesWhatChanged(t *testing.T) {
	write, do, _ := rulesOf(t)
	write(
		"rules:\n  - {name: m.asked, algorithm: gap, period: 1s}\n  - {name: changed, algorithm: gap, period: 1s}\n  - " +
			"{name: gone, algorithm: gap, period: 1s}\n",
	)
	do(
		ExitDone, "rule m.asked made, revision N\nrule changed made, revision N\nrule gone made, revision N\n", "rule",
		"apply",
	)
	r := &run{ctx: t.Context(), server: os.Getenv("PENSTOCK_URL")}
	api, err := r.client()
	if err != nil {
		t.Fatal(err)
	}
	c := &ruleApplyCmd{applyFlags{Prune: true, Yes: true}}
	list, err := c.surplus(r, api, nil)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	write("rules:\n  - {name: changed, algorithm: gap, period: 2s}\nqueues:\n  - {name: m, rate: 1/s, rules: [m.asked]}\n")
	do(ExitDone, "rule changed changed, revision N\n  period: 1s -> 2s\nm made, revision N\n", "queue", "apply")
	expect(t, ExitDone, "", "", "rule", "rm", "gone")
	want := map[string]string{
		"m.asked": "rule m.asked is not in the file, is asked by a queue by now, and was left alone",
		"gone":    "rule gone removed",
	}
	for _, a := range list {
		a, err := c.remove(r, api, a)
		if told := a.tell(false); a.Rule != "changed" && (err != nil || told != want[a.Rule]) ||
			a.Rule == "changed" && err == nil {
			t.Errorf("%s: %q, %v", a.Rule, told, err)
		}
	}
}
