package faultproxy

import (
	"bytes"
	"slices"
	"strings"
)

// Command is a command on its way to Redis.
type Command struct {
	Target string   // the address of its Redis
	Args   [][]byte // the first is the name; they must not be kept
}

// Name returns the command's name in upper case.
func (c Command) Name() string {
	if len(c.Args) == 0 {
		return ""
	}
	return strings.ToUpper(string(c.Args[0]))
}

// Match reports whether a fault applies to a command. It is called by one goroutine at a time, so it may keep a count.
type Match func(Command) bool

// Named matches commands with these names.
func Named(names ...string) Match {
	for i := range names {
		names[i] = strings.ToUpper(names[i])
	}
	return func(c Command) bool { return slices.Contains(names, c.Name()) }
}

// Script matches runs of a script, by its source or its hash, if some argument contains each of parts: a script's hash,
// a piece of its source, a key or an argument.
func Script(parts ...string) Match {
	return All(Named("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"), Containing(parts...))
}

// Containing matches commands in which, for each of parts, some argument contains it.
func Containing(parts ...string) Match {
	return func(c Command) bool {
		for _, part := range parts {
			if !slices.ContainsFunc(c.Args, func(arg []byte) bool { return bytes.Contains(arg, []byte(part)) }) {
				return false
			}
		}
		return true
	}
}

// All matches commands that all of ms match.
func All(ms ...Match) Match {
	return func(c Command) bool {
		for _, m := range ms {
			if !m(c) {
				return false
			}
		}
		return true
	}
}
