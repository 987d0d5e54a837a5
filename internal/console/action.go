package console

import (
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/auth"
)

// action is a button. It says which call of the API it makes, and has the same as a penstock command to be copied.
// {{template "action" act . $}} draws it with its fields in a sheet, {{template "form" act . $}} with them on the page.
type action struct {
	Label string
	// Method and Path are the call, such as POST /v1/queues/mail/pause.
	Method, Path string
	// Fields are asked for; a field with a Value and without a Label is sent as it is.
	Fields []field
	// Match is the revision that was shown, and must still hold; 0 is any.
	Match int64
	// Command are the words of the same as a command, without "penstock".
	Command []string
	// Role is one that the call needs: who has it for nothing at all finds the button disabled.
	Role auth.Role
	// Bulk acts on many jobs, some with each request: a script counts them first, and shows how far it has come.
	Bulk bool
	// Confirm asks before; empty does not. Danger says that something is lost by it.
	Confirm string
	Danger  bool
	// Show has the answer shown, such as the secret of a token.
	Show bool
	// Next is the page to go to then; empty is the one that the button is on.
	Next string
}

// field is what an action asks for.
type field struct {
	// Name is that of the API's field, with the kind of its value behind a colon; see object in form.go.
	Name, Label, Value string
	// Hint is an example of a value, Help a sentence below.
	Hint, Help string
	// Kind is that of the input: text if it is empty. "lines" has several lines.
	Kind string
	// Options are the values to choose from; none is any.
	Options  []string
	Required bool
}

// Shell is the command as it can be pasted.
func (a action) Shell() string {
	words := make([]string, len(a.Command)+1)
	words[0] = "penstock"
	for i, word := range a.Command {
		words[i+1] = quoted(word)
	}
	return strings.Join(words, " ")
}

// Revision is Match as a form has it.
func (a action) Revision() string {
	if a.Match == 0 {
		return ""
	}
	return strconv.FormatInt(a.Match, 10)
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@,+"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
