package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRules reads rules from a line and from files.
func TestRules(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	list := file(
		"rules:\n  - {name: a, algorithm: meter, rate: 5/s, burst: 10, key: '{lane}'}\n  - {name: b, algorithm: gap, " +
			"period: 2s}\n",
	)
	key := "{path}"
	got, err := ReadRules(list, &key)
	if err != nil || len(got) != 2 || got[0].Label != "a" || *got[0].Key != "{path}" || *got[1].Key != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if one, err := ReadRules(file(`{"algorithm": "gap", "period": "2s"}`), nil); err != nil || len(one) != 1 {
		t.Errorf("%+v, %v", one, err)
	}
	for text, want := range map[string]string{
		list:                               "a field of jobs: give --key",
		file("rules: []"):                  "has no rule",
		file("rules: 5"):                   "must be a list",
		file("5"):                          "no rule, and no list",
		file("{"):                          "neither YAML nor JSON",
		file("- {algorithm: meter}"):       "rule 1: rate: is missing",
		"nothing.yaml":                     "neither a file nor a rule",
		"":                                 "neither a file nor a rule",
		"meter":                            "rate: is missing",
		"meter rate=0/s":                   "rate",
		"meter rate=5/s burst=0":           "burst",
		"meter rate=5/s burst=many":        "burst",
		"meter rate=5/s speed=9":           "speed: is not a field of a rule",
		"meter rate=5/s rate=6/s":          "rate: is given twice",
		"meter rate":                       "is not as FIELD=VALUE",
		"gap period=2s limit=5":            "limit: has no effect with gap",
		"gap period=0s":                    "period",
		"sliding_log limit=1e18 period=1m": "limit",
		"gap period=2s key={a":             "without a field",
		"gap period=2s key={a} key={b}":    "key: is given twice",
		"GAP period=2s":                    `--rule "GAP period=2s": neither a file nor a rule`,
	} {
		if _, err := ReadRules(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"capacity=5":               "rate: is missing",
		"rate=unlimited":           "no job waits",
		"rate=5/s lease=3s":        "lease is not supported",
		"rate=5/s capacity=0":      "capacity",
		"rate=5/s capacity=1e18":   "capacity",
		"rate=5/s burst=-1":        "burst",
		"rate=5/s capacity=5 name": "name is not supported",
	} {
		if _, err := ReadQueue(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
