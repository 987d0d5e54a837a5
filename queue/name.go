package queue

import "strings"

// Limits of what names a queue and a job.
const (
	MaxIDBytes = 128
	// MaxChildren is the most children of a queue, which one decision has to choose from.
	MaxChildren = 1000
)

// ValidateName checks the name of a queue: lower-case letters, digits, - and _,
// at most 64, with at most one dot between a group and a child.
func ValidateName(name string) error {
	group, child, isChild := strings.Cut(name, ".")
	if !validPart(group) || isChild && !validPart(child) {
		return FieldErrorf(
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

// Group returns the part of a queue's name before the dot. A group's queues
// live together on one partition.
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
		return FieldErrorf("id", "", "is empty; leave it out and one is made")
	}
	// no URL leads to such a job: clients, and proxies, take them out of a path, written as %2e too
	if id == "." || id == ".." {
		return FieldErrorf("id", id, "stands for another place in a path; give another id")
	}
	if len(id) > MaxIDBytes {
		return FieldErrorf("id", id, "is longer than %d bytes", MaxIDBytes)
	}
	for i := 0; i < len(id); i++ {
		if id[i] <= ' ' || id[i] > '~' {
			return FieldErrorf("id", id, "byte %d is not a visible ASCII character", i)
		}
	}
	return nil
}
