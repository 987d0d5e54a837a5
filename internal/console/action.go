package console

import (
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/auth"
)

// action is a button: an API call, and the equivalent penstock command to copy.
// {{template "action" act . $}} draws its fields in a sheet, {{template "form" act . $}} draws them on the page.
type action struct {
	Label string
	// Method and Path are the API call, for example POST /v1/queues/mail/pause.
	Method, Path string
	// Fields are the inputs. A field with a Value and no Label is hidden and sent as it is.
	Fields []field
	// Match is the revision that the page shows; the call fails if it has changed. 0 skips the check.
	Match int64
	// Command holds the arguments of the equivalent penstock command.
	Command []string
	// Role is the role that the call needs. The button is disabled without it.
	Role auth.Role
	// Bulk marks an action on many jobs, a part with each request. A script counts the jobs first and shows progress.
	Bulk bool
	// Confirm is the question before the call; empty asks nothing. Danger marks a call that destroys something.
	Confirm string
	Danger  bool
	// Show displays the API's response: the secret of a new token.
	Show bool
	// Next is the page to open afterwards; empty is the current page.
	Next string
	// Reload opens the page anew even if it is the current one, because it changes as a whole.
	Reload bool
}

// field is an input of a form.
type field struct {
	// Name is the API's field name, with the kind of its value after a colon; see object in form.go.
	Name, Label, Value string
	// Hint is a sample value, Help the sentence below the input.
	Hint, Help string
	// Kind is the type of the input: text if empty. "lines" is a multi-line input.
	Kind string
	// Options are the values to choose from; without options any value is allowed.
	Options  []string
	Required bool
	// Wrong is why the value was refused; empty if it was not.
	Wrong string
}

// Shell returns the command, quoted for a shell.
func (a action) Shell() string {
	words := make([]string, len(a.Command)+1)
	words[0] = "penstock"
	for i, word := range a.Command {
		words[i+1] = quoted(word)
	}
	return strings.Join(words, " ")
}

// Revision returns Match for a form; empty if there is no check.
func (a action) Revision() string {
	if a.Match == 0 {
		return ""
	}
	return strconv.FormatInt(a.Match, 10)
}

// quoted returns a word quoted for a shell where necessary.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@,+"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
