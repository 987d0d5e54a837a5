package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// Rules are listed, shown, asked and deleted. The exit code reports a refusal.
func TestRules(t *testing.T) {
	store := settled(t, queue.Hold, 0, 1)
	put := func(r rules.Rule) {
		t.Helper()
		r.Normalize()
		if _, err := store.PutRule(t.Context(), r, 0); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, ExitDone, "no rules", "", "rule", "ls")
	put(rules.Rule{
		Name: "otp", Algorithm: leaky.AlgorithmSlidingLog, Key: "{lane}",
		Bound:     rules.Bound{Limit: 2, Period: unit.Duration(3600e9)},
		Overrides: map[string]rules.Bound{"bulk": {Limit: 100, Period: unit.Duration(3600e9)}},
	})
	put(rules.Rule{
		Name: "slots", Algorithm: leaky.AlgorithmConcurrency, Bound: rules.Bound{Limit: 1, TTL: unit.Duration(3600e9)},
	})
	put(rules.Rule{
		Name: "watched", Algorithm: leaky.AlgorithmGap, Bound: rules.Bound{Period: unit.Duration(3600e9)},
		Action: rules.Shadow,
	})

	expect(t, ExitDone, "2 in 1h0m0s", "", "rule", "ls")
	expect(t, ExitDone, `"algorithm": "sliding_log"`, "", "rule", "ls", "-o", "json")
	expect(t, ExitDone, "bulk  100 in 1h0m0s", "", "rule", "info", "otp")
	expect(t, ExitRefused, "", "no rule", "rule", "info", "none")

	expect(t, ExitDone, "0 of 2", "", "rule", "take", "otp", "ann", "--cost", "2")
	expect(t, ExitRefused, "retry after", "", "rule", "peek", "otp", "ann")
	expect(t, ExitDone, "       0  ann\n", "", "rule", "top", "otp")
	expect(t, ExitDone, `"count": 1`, "", "rule", "top", "otp", "-o", "json")
	expect(t, ExitRefused, "", "unknown_rule", "rule", "top", "nothing")
	expect(t, ExitRefused, `"allowed": false`, "", "rule", "take", "otp", "ann", "-o", "json")
	expect(t, ExitDone, "99 of 100", "", "rule", "take", "otp", "bulk")
	expect(t, ExitDone, "allowed", "", "rule", "refund", "otp", "ann")
	expect(t, ExitRefused, "", "exceeds the maximum that the rule", "rule", "take", "otp", "ann", "--cost", "3")
	expect(t, ExitRefused, "", "key", "rule", "take", "otp")
	expect(t, ExitUsage, "", "at least 1", "rule", "take", "otp", "ann", "--cost", "0")

	expect(t, ExitDone, "lease        here", "", "rule", "take", "slots", "--lease", "here")
	expect(t, ExitRefused, "refused", "", "rule", "take", "slots", "--lease", "there")
	expect(t, ExitDone, "allowed", "", "rule", "refund", "slots", "--lease", "here")
	expect(t, ExitDone, "allowed", "", "rule", "take", "watched")
	expect(t, ExitDone, "only counts", "", "rule", "take", "watched")

	put(rules.Rule{
		Name: "llm", Algorithm: leaky.AlgorithmBudget, Unit: "tokens", Key: "{lane}",
		Bound: rules.Bound{Rate: leaky.Ratio(1, 3600e6), Burst: 2000},
	})
	expect(t, ExitDone, "200 of 2000", "", "rule", "peek", "llm", "ann", "--cost", "tokens=1800")
	r := expect(t, ExitDone, "200 of 2000", "", "rule", "take", "llm", "ann", "--cost", "tokens=1800")
	_, id, _ := strings.Cut(r.out, "take         ")
	id = strings.TrimSpace(id)
	expect(t, ExitDone, "567 of 2000", "", "rule", "correct", "llm", "ann", "--take", id, "--actual", "tokens=1432")
	expect(t, ExitDone, `"remaining": 567`, "", "rule", "correct", "llm", "ann", "--take", id, "--actual", "tokens=5",
		"-o", "json")
	expect(t, ExitRefused, "", "costs.tokens: is missing", "rule", "take", "llm", "ann")
	expect(t, ExitRefused, "", "images", "rule", "take", "llm", "ann", "--cost", "images=1")
	expect(t, ExitRefused, "", "correct the take to 0", "rule", "refund", "llm", "ann", "--cost", "tokens=1")
	expect(t, ExitRefused, "", "has no unit", "rule", "take", "otp", "ann", "--cost", "tokens=1")
	expect(t, ExitRefused, "", "take", "rule", "correct", "llm", "ann", "--take", "x", "--actual", "tokens=1")
	expect(t, ExitRefused, "", "actual.tokens", "rule", "correct", "llm", "ann", "--take", id, "--actual", "tokens=-1")
	for _, wrong := range []string{"=5", "tokens=", "many", "tokens=1.5", ""} {
		expect(t, ExitUsage, "", "is not a cost such as 10 or tokens=1800", "rule", "take", "llm", "ann", "--cost="+wrong)
	}
	expect(t, ExitUsage, "", "needs a unit", "rule", "correct", "llm", "ann", "--take", id, "--actual", "5")
	expect(t, ExitUsage, "", "--take", "rule", "correct", "llm", "ann", "--actual", "tokens=5")

	expect(t, ExitDone, "allowed", "", "rule", "reset", "otp", "ann")
	expect(t, ExitUsage, "", "--yes", "rule", "reset", "otp", "--all")
	expect(t, ExitUsage, "", "cannot be used with --all", "rule", "reset", "otp", "ann", "--all", "--yes")
	expect(t, ExitDone, "all keys reset", "", "rule", "reset", "otp", "--all", "--yes")
	expect(t, ExitDone, "99 of 100", "", "rule", "peek", "otp", "bulk")
	if got := completed(t, "zsh", "rule", "take", "s"); got != "slots" {
		t.Errorf("completed with %q", got)
	}
	if _, err := store.Put(
		t.Context(), queue.Spec{Name: "mail", Rate: leaky.Unlimited, Rules: []string{"otp"}}, 0,
	); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "mail", "", "rule", "ls")
	expect(t, ExitDone, "mail", "", "rule", "info", "otp")
	expect(t, ExitDone, `"mail"`, "", "rule", "ls", "-o", "json")
	expect(
		t, ExitRefused, "",
		"is used by mail and was not deleted; remove it from their rules first, or use --force", "rule", "rm",
		"otp",
	)
	expect(t, ExitDone, "otp deleted", "mail will refuse all jobs", "rule", "rm", "otp", "--force")
	expect(t, ExitRefused, "", "no rule", "rule", "rm", "otp")

	// The error names the first queues, but its advice depends on all of them.
	for i := range 10 { // as many as a message names
		if _, err := store.Put(
			t.Context(), queue.Spec{Name: fmt.Sprint("a", i), Rate: leaky.Unlimited, Rules: []string{"watched"}}, 0,
		); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Put(
		t.Context(), queue.Spec{Name: "watched", Rate: leaky.Unlimited, Rules: []string{"watched"}}, 0,
	); err != nil {
		t.Fatal(err)
	}
	expect(
		t, ExitRefused, "", "a9 and more and was not deleted; remove it from their rules first\n", "rule", "rm", "watched",
	)
}

// With produce alone a take is given back by its receipt, and by nothing else.
func TestRuleRefundByReceipt(t *testing.T) {
	guarded(t)
	expect(t, ExitDone, "", "", "app", "put", "acme", "--prefix", "acme-*")
	rule := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rule, []byte(
		"rules:\n  - {name: acme-calls, algorithm: sliding_log, limit: 5, period: 1h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "acme-calls", "", "rule", "apply", "-f", rule)
	token, _ := created(t, "--app", "acme", "--grant", "produce")
	t.Setenv(command.EnvToken, token)
	expect(t, ExitDone, "receipt ", "", "rule", "take", "acme-calls", "--cost", "3")
	r := expect(t, ExitDone, `"receipt"`, "", "rule", "take", "acme-calls", "--cost", "2", "-o", "json")
	var taken struct{ Receipt string }
	if err := json.Unmarshal([]byte(r.out), &taken); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitRefused, "", "receipt", "rule", "refund", "acme-calls")
	expect(t, ExitDone, "1 of 5", "", "rule", "refund", "acme-calls", "--receipt", taken.Receipt)
	expect(t, ExitRefused, "", "used already", "rule", "refund", "acme-calls", "--receipt", taken.Receipt)
	expect(t, ExitUsage, "", "--cost 0", "rule", "refund", "acme-calls", "--cost", "0")
}
