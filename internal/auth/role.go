package auth

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// Role is what somebody may do within a prefix. Roles compose: who has two may do what either allows.
type Role string

// The roles.
const (
	Produce   Role = "produce"
	Consume   Role = "consume"
	View      Role = "view"
	Payloads  Role = "payloads"
	Operate   Role = "operate"
	Configure Role = "configure"
	Admin     Role = "admin"
)

// roles has a row for each role. Its place is its bit in a roleSet.
var roles = []struct {
	role  Role
	means string
}{
	{Produce, "append jobs, get and cancel them, take from rules"},
	{Consume, "lease and settle jobs, wait for them"},
	{View, "see queues, rules, jobs and figures, without payloads"},
	{Payloads, "see the payloads and headers of jobs"},
	{Operate, "pause, purge, replay, decide, refund, reset"},
	{Configure, "put and delete queues and rules, within what the app may"},
	{Admin, "all of it; the tokens and the audit log of the app"},
}

// Roles are all roles, in the order of the docs.
func Roles() []Role {
	all := make([]Role, len(roles))
	for i := range roles {
		all[i] = roles[i].role
	}
	return all
}

// Means says what a role allows, for people; empty of one that there is not.
func (r Role) Means() string {
	if i := r.index(); i >= 0 {
		return roles[i].means
	}
	return ""
}

func (r Role) index() int {
	for i := range roles {
		if roles[i].role == r {
			return i
		}
	}
	return -1
}

func (r Role) validate(field string) error {
	if r.index() >= 0 {
		return nil
	}
	names := make([]string, len(roles))
	for i := range roles {
		names[i] = string(roles[i].role)
	}
	slices.Sort(names)
	return &invalid.Error{
		Field: field, Value: clip.Quote(string(r), 40), Reason: "must be one of " + strings.Join(names, ", "),
	}
}

// roleSet is some roles.
type roleSet uint8

func setOf(r Role) roleSet {
	if i := r.index(); i >= 0 {
		return 1 << i
	}
	return 0
}

// has reports whether the set allows what r does: admin allows everything, and what is no role nobody has.
func (s roleSet) has(r Role) bool {
	of := setOf(r)
	return of != 0 && s&(of|setOf(Admin)) != 0
}
