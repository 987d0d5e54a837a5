// Package bounce is how a job's reason names the recipients that a server refused: written by the target, and read back
// for programs.
//
// It promises that what List writes behind one of the openings is read by Parse, whole entries alone if the text was
// cut; and that nothing in a server's answer can add a recipient or change an address. It refuses to guess: a reason
// that does not begin with an opening has no bounces in it.
package bounce

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/clip"
)

// Bounce is one recipient who was refused.
type Bounce struct {
	Address string `json:"address"`
	Code    int    `json:"code"`             // of SMTP, such as 550
	Status  string `json:"status,omitempty"` // the enhanced code, RFC 3463, such as 5.1.1; empty without one
	Text    string `json:"text,omitempty"`   // what the server said behind the codes
}

// The openings of a reason that has bounces in it.
const (
	Nobody    = "sent to nobody" // a section of those put off may stand between
	Message   = "the message was refused for "
	delivered = "delivered to %d of %d" // behind which List stands as after Nobody

	refused = "; refused: "
	putOff  = "; put off: "
)

// Delivered is the opening of a message that some of its recipients were sent.
func Delivered(some, all int) string { return fmt.Sprintf(delivered, some, all) }

// Sections writes what became of the others, behind Nobody or Delivered.
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

// List names recipients: ADDRESS (CODE TEXT), and so on, and how many more there are.
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

// brackets keeps an answer from ending its parentheses.
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
	// An address has neither spaces nor parentheses nor commas in it: the mail target sends to no other.
	entry = regexp.MustCompile(`^([^\s(),;]+@[^\s(),;]+) \((\d{3})(?: ([245]\.\d{1,3}\.\d{1,3}))?(?: ([^()]*))?\)`)
)

// Parse returns the recipients that a reason says were refused, nil if it says nothing of the kind.
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

// entries reads a list up to where it ends, and what stands behind it.
func entries(s string) (list []Bounce, rest string) {
	for {
		m := entry.FindStringSubmatch(s)
		if m == nil {
			return list, s
		}
		code, _ := strconv.Atoi(m[2]) // the expression lets nothing else through
		list = append(list, Bounce{Address: m[1], Code: code, Status: m[3], Text: m[4]})
		s = s[len(m[0]):]
		next, ok := strings.CutPrefix(s, ", ")
		if !ok || more.MatchString(s) {
			return list, s[len(more.FindString(s)):]
		}
		s = next
	}
}
