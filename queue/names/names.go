// Package names validates and parses the names of queues, jobs and other objects in a store.
package names

import (
	"strings"

	"github.com/penstock/penstock/queue/invalid"
)

// MaxIDBytes is the maximum length of a job's id.
const MaxIDBytes = 128

// Validate checks the name of a queue: lower-case letters, digits, - and _, at most 64, with at most one dot between a
// group and a child.
func Validate(name string) error {
	group, child, isChild := strings.Cut(name, ".")
	if !validPart(group) || isChild && !validPart(child) {
		return invalid.Errorf(
			"name", name,
			"a queue name has 1 to 64 characters of a-z 0-9 _ - and begins with a letter or digit; a child is "+
				"group.child with one dot",
		)
	}
	return nil
}

// validPart avoids a regular expression because it runs for every job.
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

// Parent returns the name of a queue's parent, or "" if it is not a child.
func Parent(name string) string {
	if group := Group(name); group != name {
		return group
	}
	return ""
}

// ValidateID checks a job's id: 1 to 128 visible ASCII characters.
func ValidateID(id string) error {
	if id == "" {
		return invalid.Errorf("id", "", "is empty; leave it out to get a generated one")
	}
	// No URL leads to these: clients and proxies remove them from paths, even when encoded as %2e.
	if id == "." || id == ".." {
		return invalid.Errorf("id", id, "is special in URL paths; choose another id")
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

// IsKind reports whether s can name a kind of recorded objects: 1 to 16 characters of a-z and _.
func IsKind(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 16
}

// IsToken reports whether s is a token by RFC 9110, 5.6.2, like the name of a header.
func IsToken(s string) bool { return s != "" && strings.IndexFunc(s, notToken) < 0 }

func notToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(
		"!#$%&'*+-.^_`|~", r,
	))
}
