package cli

import (
	"testing"

	"github.com/penstock/penstock/internal/cli/command"
)

func TestSuggestionsForSimilarNames(t *testing.T) {
	t.Setenv(command.EnvURL, ingress(t))
	expect(t, ExitDone, "", "", "queue", "set", "email", "rate=5/s", "pull=true")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"there is no queue emial; did you mean email?", []string{"queue", "set", "emial", "capacity=5"}},
		{"give a rate, such as rate=14/s", []string{"queue", "set", "letters", "capacity=5"}},
		{`"emial"; did you mean email?; "penstock queue set" creates it`, []string{"queue", "info", "emial"}},
		{"did you mean capacity?", []string{"queue", "set", "email", "capcity=5"}},
		{"did you mean max_attempts?", []string{"queue", "set", "email", "retry.max_attemps=5"}},
		{`"penstock rule apply" creates it`, []string{"rule", "take", "otp"}},
	} {
		expect(t, ExitRefused, "", c.want, c.args...)
	}
	appending := penstock(t, `{"payload":{"n":1}}`, "push", "email", "--file", "-")
	if appending.code != ExitDone {
		t.Fatal(appending)
	}
	expect(t, ExitRefused, "", "--force", "queue", "rm", "email", "--yes")
}
