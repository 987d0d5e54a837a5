package queue

import (
	"regexp"
	"strings"
)

// Limits of what names a queue and a job.
const (
	MaxIDBytes = 128
)

var nameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}(\.[a-z0-9][a-z0-9_-]{0,63})?$`)

// ValidateName checks the name of a queue: lower-case letters, digits, - and _,
// at most 64, with at most one dot between a group and a child.
func ValidateName(name string) error {
	if len(name) > 129 || !nameRule.MatchString(name) {
		return fieldErr("name", name, "a queue name is 1 to 64 of a-z 0-9 _ -, beginning with a letter or digit; a child is group.child with one dot")
	}
	return nil
}

// Group returns the part of a queue's name before the dot. A group's queues
// live together on one partition.
func Group(name string) string {
	group, _, _ := strings.Cut(name, ".")
	return group
}

// ValidateID checks a job's id: 1 to 128 visible ASCII characters.
func ValidateID(id string) error {
	if id == "" {
		return fieldErr("id", "", "is empty; leave it out and one is made")
	}
	if len(id) > MaxIDBytes {
		return fieldErr("id", id, "is longer than %d bytes", MaxIDBytes)
	}
	for i := 0; i < len(id); i++ {
		if id[i] <= ' ' || id[i] > '~' {
			return fieldErr("id", id, "byte %d is not a visible ASCII character", i)
		}
	}
	return nil
}
