package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
)

// grantFlags say what a token or a subject may do.
type grantFlags struct {
	Grant []string `env:"-" placeholder:"ROLE[:PREFIX]"`
}

// LongHelp is the help that is too long for the tags.
func (grantFlags) LongHelp() map[string]string {
	return map[string]string{
		"grant": "What it may do: ROLE, or ROLE:PREFIX for some of the names alone. May be repeated.",
	}
}

// lasting says for how long a token or a subject holds.
type lasting struct {
	ExpiresIn time.Duration `env:"-" placeholder:"DURATION"`
}

// LongHelp is the help that is too long for the tags.
func (lasting) LongHelp() map[string]string {
	return map[string]string{"expires-in": "For how long it holds, such as 720h; for ever without."}
}

// expires is the instant at which it ends; nil is never.
func (l *lasting) expires(now time.Time) *time.Time {
	if l.ExpiresIn == 0 {
		return nil
	}
	at := now.Add(l.ExpiresIn).UTC()
	return &at
}

// grantHelp is told by the commands that take them.
func grantHelp() string {
	var b strings.Builder
	b.WriteString("Roles:\n")
	for _, role := range auth.Roles() {
		fmt.Fprintf(&b, "  %-10s %s\n", role, role.Means())
	}
	return b.String()
}

func (f *grantFlags) grants() (all []auth.Grant, err error) {
	for _, text := range f.Grant {
		role, prefix, ofPrefix := strings.Cut(text, ":")
		if ofPrefix && prefix == "" || auth.Role(role).Means() == "" {
			return nil, usage(fmt.Errorf(
				"--grant %s: must be ROLE or ROLE:PREFIX, with a role of %s", text, joined(auth.Roles()),
			))
		}
		all = append(all, auth.Grant{Role: auth.Role(role), Prefix: prefix})
	}
	return all, nil
}

// grantsOf are grants as --grant takes them.
func grantsOf(all []auth.Grant) string {
	texts := make([]string, len(all))
	for i, g := range all {
		texts[i] = string(g.Role)
		if g.Prefix != "" {
			texts[i] += ":" + g.Prefix
		}
	}
	return joined(texts)
}

func joined[S ~string](all []S) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = plain(string(all[i]))
	}
	return strings.Join(texts, " ")
}
