// Package bounce writes refused recipients into a job's reason, and parses them back for programs.
//
// Parse reads lists written by List behind one of the openings. If the text was cut, it reads the entries that are
// complete. Nothing in a server's answer can add a recipient or change an address. A reason without an opening has no
// bounces.
package bounce

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/clip"
)

// Bounce is one refused recipient.
type Bounce struct {
	Address string `json:"address"`
	Code    int    `json:"code"`             // of SMTP, such as 550
	Status  string `json:"status,omitempty"` // the enhanced code, RFC 3463, such as 5.1.1; empty without one
	Text    string `json:"text,omitempty"`   // the server's text behind the codes
}

// The openings of reasons with bounces.
const (
	Nobody    = "sent to nobody" // Sections follows
	Message   = "the message was refused for "
	delivered = "delivered to %d of %d" // Sections follows

	refused = "; refused: "
	putOff  = "; put off: "
)

// Delivered returns the opening of a message that was sent to some of its recipients.
func Delivered(some, all int) string { return fmt.Sprintf(delivered, some, all) }

// Sections lists deferred and refused recipients, to follow Nobody or Delivered.
func Sections(off, gone []Bounce) string {
	text := ""
	if len(off) > 0 {
		text = putOff + List(off)
	}
	if len(gone) > 0 {
		text += refused + List(gone)
	}
	return text
}

const (
	maxListed    = 5
	maxTextBytes = 80
)

// List returns recipients as ADDRESS (CODE TEXT), separated by commas, and the number of further ones.
func List(all []Bounce) string {
	var b strings.Builder
	for i, one := range all {
		if i == maxListed {
			fmt.Fprintf(&b, ", and %d more", len(all)-maxListed)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s)", one.Address, one.answer())
	}
	return b.String()
}

// brackets replaces parentheses in an answer, which would end the entry.
var brackets = strings.NewReplacer("(", "[", ")", "]")

func (b *Bounce) answer() string {
	text := strconv.Itoa(b.Code)
	if b.Status != "" {
		text += " " + b.Status
	}
	if b.Text != "" {
		text += " " + clip.Text(brackets.Replace(b.Text), maxTextBytes)
	}
	return text
}

var (
	opening = regexp.MustCompile(`^(?:` + regexp.QuoteMeta(Nobody) + `|delivered to \d+ of \d+)`)
	// An address has no spaces, parentheses or commas: smtptarget accepts no others.
	entry = regexp.MustCompile(`^([^\s(),;]+@[^\s(),;]+) \((\d{3})(?: ([245]\.\d{1,3}\.\d{1,3}))?(?: ([^()]*))?\)`)
)

// Parse returns the refused recipients in a reason, nil if it has none.
func Parse(reason string) []Bounce {
	if rest, ok := strings.CutPrefix(reason, Message); ok {
		list, _ := entries(rest)
		return list
	}
	at := opening.FindStringIndex(reason)
	if at == nil {
		return nil
	}
	rest := reason[at[1]:]
	if off, ok := strings.CutPrefix(rest, putOff); ok {
		_, rest = entries(off)
	}
	if gone, ok := strings.CutPrefix(rest, refused); ok {
		list, _ := entries(gone)
		return list
	}
	return nil
}

var more = regexp.MustCompile(`^, and \d+ more`)

// entries parses a list, and returns the rest of the text behind it.
func entries(s string) (list []Bounce, rest string) {
	for {
		m := entry.FindStringSubmatch(s)
		if m == nil {
			return list, s
		}
		code, _ := strconv.Atoi(m[2]) // the expression matches only digits
		list = append(list, Bounce{Address: m[1], Code: code, Status: m[3], Text: m[4]})
		s = s[len(m[0]):]
		next, ok := strings.CutPrefix(s, ", ")
		if !ok || more.MatchString(s) {
			return list, s[len(more.FindString(s)):]
		}
		s = next
	}
}
