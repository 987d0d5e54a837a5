package smtptarget

import (
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/deliver/bounce"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue"
)

const excerptBytes = 200

// reply is an answer of a server.
type reply struct {
	code     int
	enhanced [3]int // RFC 3463; zero without one
	text     string // the rest
}

var enhancedCode = regexp.MustCompile(`^([245])\.(\d{1,3})\.(\d{1,3})\b`)

func newReply(code int, text string) reply {
	r := reply{code: code, text: text}
	if m := enhancedCode.FindStringSubmatch(text); m != nil {
		for i := range r.enhanced {
			r.enhanced[i], _ = strconv.Atoi(m[i+1]) // the expression matches only digits
		}
	}
	return r
}

func replyOf(e *textproto.Error) reply { return newReply(e.Code, e.Msg) }

func (r reply) String() string {
	if text := excerpt(r.text); text != "" {
		return strconv.Itoa(r.code) + " " + text
	}
	return strconv.Itoa(r.code)
}

// stage is the step of a transaction that an answer belongs to.
type stage int

const (
	beforeMail stage = iota // the greeting, EHLO, STARTTLS, AUTH
	toMail
	toRecipient
	toMessage // DATA, and the message
)

// verdict is the meaning of an answer.
type verdict int

const (
	taken     verdict = iota
	later             // this job, or this recipient
	throttled         // everything that goes to the server
	refused           // this job, or this recipient, for good
	unfit             // the server, or the setting
)

// judge returns the meaning of an answer, by the table in docs/targets/smtp.md.
//
// Answers about one message or one mailbox must not stop the queue, or it would stop again and again. So a code that
// servers use for both counts as throttling only where it cannot be about a mailbox, or where RFC 3463's code says so.
func (r reply) judge(at stage) verdict {
	switch {
	case r.code >= 200 && r.code <= 299:
		return taken
	case r.code >= 500 && r.code <= 599:
		return r.judgeFinal(at)
	case r.code < 400 || r.code > 599:
		return unfit // it does not speak SMTP
	}
	subject, detail := r.enhanced[1], r.enhanced[2] // RFC 3463, 2
	common := r.code >= 450 && r.code <= 454
	switch {
	case r.code == 421, r.code == 454, subject == 3 && (detail == 1 || detail == 2), subject == 4 && detail == 5:
		return throttled // it is full, takes nothing now, is congested
	case at == beforeMail && !common:
		return unfit
	case at == beforeMail:
		return throttled
	case strings.Contains(strings.ToLower(r.text), "greylist"):
		return later
	case at == toRecipient && subject == 7 && detail != 1: // 4.7.1 is how most say that they greylist
		return throttled
	case at == toRecipient, !common:
		return later
	case subject == 1 || subject == 2 || subject == 5 || subject == 6: // an address, a mailbox, the protocol, the content
		return later
	case r.code == 451 && subject != 7: // "local error in processing"
		return later
	}
	return throttled
}

func (r reply) judgeFinal(at stage) verdict {
	login := r.code == 530 || r.code == 534 || r.code == 535 || r.code == 538
	switch {
	case at == beforeMail, at == toMail && login:
		return unfit
	case at == toRecipient && r.code == 552 && r.enhanced[1] != 2: // too many recipients: RFC 5321, 4.5.3.1.10
		return later
	}
	return refused
}

var waits = regexp.MustCompile(
	`(?i)\b(?:in|after|for|wait|within)[ :]+(?:about |at least )?` +
		`(\d{1,6}) ?(s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b`,
)

// wait returns how long a server asked to wait, as in "try again in 60 seconds"; 0 if it did not.
func wait(text string) time.Duration {
	m := waits.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // the expression matches only digits
	unit := time.Second
	switch m[2][0] {
	case 'm', 'M':
		unit = time.Minute
	case 'h', 'H':
		unit = time.Hour
	}
	return min(time.Duration(n)*unit, queue.MaxStop)
}

// excerpt returns an answer's text as it may be shown to people.
func excerpt(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return clip.Text(strings.Join(strings.Fields(text), " "), excerptBytes)
}

// refusal is the answer to one recipient.
type refusal struct {
	address string
	reply   reply
}

// bounces converts refusals for a job's reason.
func bounces(all []refusal) []bounce.Bounce {
	list := make([]bounce.Bounce, len(all))
	for i, r := range all {
		text := excerpt(r.reply.text)
		status := enhancedCode.FindString(text)
		list[i] = bounce.Bounce{
			Address: r.address, Code: r.reply.code, Status: status, Text: strings.TrimSpace(text[len(status):]),
		}
	}
	return list
}
