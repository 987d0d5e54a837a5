// Package names has how queues, jobs and what else a store knows are named, and what their names say.
package names

import (
	"strings"

	"github.com/penstock/penstock/queue/invalid"
)

// MaxIDBytes is the longest id of a job.
const MaxIDBytes = 128

// Validate checks the name of a queue: lower-case letters, digits, - and _, at most 64, with at most one
// dot between a group and a child.
func Validate(name string) error {
	group, child, isChild := strings.Cut(name, ".")
	if !validPart(group) || isChild && !validPart(child) {
		return invalid.Errorf(
			"name", name,
			"a queue name is 1 to 64 of a-z 0-9 _ -, beginning with a letter or digit; a child is group.child with "+
				"one dot",
		)
	}
	return nil
}

// validPart is called for every job, so it is no regular expression.
func validPart(s string) bool {
	if len(s) == 0 || len(s) > 64 || s[0] == '-' || s[0] == '_' {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// Group returns the part of a queue's name before the dot. A group's queues live together on one partition.
func Group(name string) string {
	group, _, _ := strings.Cut(name, ".")
	return group
}

// Parent returns the name of a queue's parent, and "" if it is no child.
func Parent(name string) string {
	if group := Group(name); group != name {
		return group
	}
	return ""
}

// ValidateID checks a job's id: 1 to 128 visible ASCII characters.
func ValidateID(id string) error {
	if id == "" {
		return invalid.Errorf("id", "", "is empty; leave it out and one is made")
	}
	// no URL leads to such a job: clients, and proxies, take them out of a path, written as %2e too
	if id == "." || id == ".." {
		return invalid.Errorf("id", id, "stands for another place in a path; give another id")
	}
	if len(id) > MaxIDBytes {
		return invalid.Errorf("id", id, "is longer than %d bytes", MaxIDBytes)
	}
	for i := 0; i < len(id); i++ {
		if id[i] <= ' ' || id[i] > '~' {
			return invalid.Errorf("id", id, "byte %d is not a visible ASCII character", i)
		}
	}
	return nil
}

// IsKind reports whether s can be the name of a kind of things that are recorded: 1 to 16 of a-z and _.
func IsKind(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 16
}

// IsToken reports whether s is a token of RFC 9110, 5.6.2, as the names of headers are.
func IsToken(s string) bool { return s != "" && strings.IndexFunc(s, notToken) < 0 }

func notToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(
		"!#$%&'*+-.^_`|~", r,
	))
}
