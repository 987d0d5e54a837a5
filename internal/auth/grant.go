package auth

import (
	"fmt"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// MaxGrants is the maximum number of permissions of a token or a subject.
const MaxGrants = 64

// Grant is a permission: a role for a prefix.
type Grant struct {
	Role Role `json:"role"`
	// Prefix names the queues and rules. Empty means all of the app's; for an operator, everything.
	Prefix string `json:"prefix,omitempty"`
}

// grants are the roles by prefix, a compact form of []Grant.
type grants []struct {
	prefix string
	roles  roleSet
}

func compact(list []Grant) (g grants) {
next:
	for _, one := range list {
		for i := range g {
			if g[i].prefix == one.Prefix {
				g[i].roles |= setOf(one.Role)
				continue next
			}
		}
		g = append(g, struct {
			prefix string
			roles  roleSet
		}{one.Prefix, setOf(one.Role)})
	}
	return g
}

// allow reports whether a role is given for a name. It does not check who owns the name.
func (g grants) allow(r Role, name string) bool {
	for i := range g {
		if g[i].roles.has(r) && (g[i].prefix == "" || within(g[i].prefix, name)) {
			return true
		}
	}
	return false
}

// Allow reports whether a list of permissions gives a role for a name. Admin includes every role.
func Allow(list []Grant, r Role, name string) bool { return compact(list).allow(r, name) }

// cover reports whether a role is given for all names of a prefix. An empty prefix means all of the app's.
func (g grants) cover(r Role, prefix string) bool {
	for i := range g {
		if p := g[i].prefix; g[i].roles.has(r) &&
			(p == "" || p == Everything || prefix != "" && covers(p, prefix)) {
			return true
		}
	}
	return false
}

// has reports whether a role is given for any name.
func (g grants) has(r Role) bool {
	for i := range g {
		if g[i].roles.has(r) {
			return true
		}
	}
	return false
}

// keep reports whether each of the roles is given for all names of a prefix.
func (g grants) keep(set roleSet, prefix string) bool {
	for i := range roles {
		if set&(1<<i) != 0 && !g.cover(roles[i].role, prefix) {
			return false
		}
	}
	return true
}

// list is the inverse of compact, sorted by role within each prefix.
func (g grants) list() (all []Grant) {
	for i := range g {
		for k := range roles {
			if g[i].roles&(1<<k) != 0 {
				all = append(all, Grant{roles[k].role, g[i].prefix})
			}
		}
	}
	return all
}

// validateGrants checks the permissions of a token or a subject. A nil app is the operator. Its error is an
// *invalid.Error.
func validateGrants(list []Grant, app *App) error {
	if len(list) == 0 || len(list) > MaxGrants {
		return &invalid.Error{Field: "grants", Reason: fmt.Sprintf("are %d, must be 1 to %d", len(list), MaxGrants)}
	}
	for i, g := range list {
		field := fmt.Sprintf("grants[%d].", i)
		if err := g.Role.validate(field + "role"); err != nil {
			return err
		}
		if g.Prefix == "" || g.Prefix == Everything && app == nil {
			continue
		}
		if err := ValidatePrefix(field+"prefix", g.Prefix); err != nil {
			return err
		}
		if app != nil && !coveredByAny(app.Prefixes, g.Prefix) {
			return &invalid.Error{
				Field: field + "prefix", Value: clip.Quote(g.Prefix, 80),
				Reason: "is outside the prefixes of the app " + app.Name,
			}
		}
	}
	return nil
}
