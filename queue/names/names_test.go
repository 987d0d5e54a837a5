package names_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

func TestValidate(t *testing.T) {
	for _, name := range []string{
		"a", "0", "a-b", "a_b", "a.b", "a--", "a__.0-", "ses.otp", strings.Repeat("n", 64),
		strings.Repeat("n", 64) + "." + strings.Repeat("m", 64),
	} {
		if err := names.Validate(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "a.", ".a", "a..b", "a.b.c", "-a", "_a", "a.-b", "A", "aB", "a b", " a", "a ", "a\n", "a\x00", "a/b",
		"a:b", "{a}", "a{b}", "a*", "a>b", "ä", "\xff",
		strings.Repeat("n", 65), "a." + strings.Repeat("n", 65), strings.Repeat("n", 10_000_000),
	} {
		var refused *invalid.Error
		if err := names.Validate(name); !errors.As(err, &refused) || refused.Field != "name" || refused.Reason == "" ||
			!strings.HasPrefix(err.Error(), "name: ") || len(err.Error()) > 500 {
			t.Errorf("%s: got %.600v, want an *invalid.Error of the name", clip.Quote(name, 40), err)
		}
	}
	for name, group := range map[string]string{"ses": "ses", "ses.otp": "ses"} {
		if names.Group(name) != group {
			t.Errorf("group of %s is %s", name, names.Group(name))
		}
	}
}
