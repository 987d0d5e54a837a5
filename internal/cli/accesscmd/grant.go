package accesscmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/command"
)

// grantFlags are the permissions of a token or a subject.
type grantFlags struct {
	Grant []string `env:"-" placeholder:"ROLE[:PREFIX]"`
}

func (grantFlags) LongHelp() map[string]string {
	return map[string]string{
		"grant": "Role to grant, or ROLE:PREFIX to limit it to names with a prefix. May be repeated.",
	}
}

// expiry is the lifetime of a token or a subject.
type expiry struct {
	ExpiresIn time.Duration `env:"-" help:"Lifetime, such as 720h. Default: unlimited." placeholder:"DURATION"`
}

// at returns the instant of expiry, or nil.
func (e *expiry) at(now time.Time) *time.Time {
	if e.ExpiresIn == 0 {
		return nil
	}
	at := now.Add(e.ExpiresIn).UTC()
	return &at
}

// roleHelp lists the roles.
func roleHelp() string {
	var b strings.Builder
	b.WriteString("Roles:\n")
	for _, role := range auth.Roles() {
		fmt.Fprintf(&b, "  %-10s %s\n", role, role.Means())
	}
	return b.String()
}

func (f *grantFlags) grants() (all []auth.Grant, err error) {
	for _, text := range f.Grant {
		role, prefix, hasPrefix := strings.Cut(text, ":")
		if hasPrefix && prefix == "" || auth.Role(role).Means() == "" {
			return nil, command.Usage(fmt.Errorf(
				"--grant %s: must be ROLE or ROLE:PREFIX, with one of the roles %s", text, joined(auth.Roles()),
			))
		}
		all = append(all, auth.Grant{Role: auth.Role(role), Prefix: prefix})
	}
	return all, nil
}

// grantsText returns grants as --grant takes them.
func grantsText(all []auth.Grant) string {
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
		texts[i] = string(all[i])
	}
	return strings.Join(texts, " ")
}
