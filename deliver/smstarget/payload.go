package smstarget

import (
	"mime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
)

// Limits of a text.
const (
	MaxCharacters      = 1600 // the limit of Twilio and similar providers
	DefaultMaxSegments = 10
	MaxSegments        = 25 // of 1600 characters at most
)

// Message is a text to send.
type Message struct {
	To   string
	From string // empty: the messaging service chooses
	Body string
	// Segments is the number of segments of the text.
	Segments int
}

// payload is the payload of a job.
type payload struct {
	To   string  `json:"to"`
	From string  `json:"from"`
	Text *string `json:"text"`
	Body *string `json:"body"`
}

// Message parses a job's payload. Its error is an *invalid.Error.
func (s *Setting) Message(job *queue.Job) (Message, error) {
	if err := isJSON(job.ContentType); err != nil {
		return Message{}, err
	}
	var p payload
	if err := setting.Decode(job.Payload, "payload", &p); err != nil {
		return Message{}, err
	}
	if !isNumber(p.To) {
		return Message{}, setting.Error(
			"payload.to", p.To,
			`must be a phone number as E.164 has it, + and 7 to 15 digits and nothing else, such as "+4915112345678"`,
		)
	}
	if p.From == "" {
		p.From = s.From
	} else if err := checkFrom("payload.from", p.From); err != nil {
		return Message{}, err
	} else if p.From != s.From && !s.AllowFrom.Match(p.From) {
		return Message{}, setting.Error(
			"payload.from", p.From,
			"is not the queue's sender, nor one that deliver.sms.allow_from allows; leave it out, or have it allowed",
		)
	}
	if p.From == "" && s.MessagingService == "" {
		return Message{}, setting.Error(
			"payload.from", "", "is missing, and the queue has neither deliver.sms.from nor deliver.sms.messaging_service",
		)
	}
	at, text := "payload.text", p.Text
	if text == nil {
		at, text = "payload.body", p.Body
	}
	switch {
	case text == nil:
		return Message{}, setting.Error("payload.text", "", "is missing; give the text that is sent")
	case p.Text != nil && p.Body != nil:
		return Message{}, setting.Error("payload.body", "", "is another name for text; give only one of them")
	}
	segments, err := s.checkText(at, *text)
	return Message{To: p.To, From: p.From, Body: *text, Segments: segments}, err
}

func (s *Setting) checkText(at, text string) (segments int, err error) {
	if strings.TrimSpace(text) == "" {
		return 0, setting.Error(at, "", "is empty; give the text that is sent")
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
		r, _ := utf8.DecodeRuneInString(text[i:])
		return 0, setting.Error(
			at, "",
			"has the control character "+strconv.QuoteRuneToASCII(r)+" at byte "+strconv.Itoa(i)+
				`; of those only the newline, "\n", can be sent`,
		)
	}
	segments, encoding := Segments(text)
	size := utf8.RuneCountInString(text)
	if size > MaxCharacters {
		return 0, setting.Error(
			at, "",
			"has "+strconv.Itoa(size)+" characters, "+strconv.Itoa(segments)+" segments in "+encoding+"; the limit is "+
				strconv.Itoa(MaxCharacters)+" characters",
		)
	}
	if segments > s.MaxSegments {
		return 0, setting.Error(
			at, "",
			"has "+strconv.Itoa(segments)+" segments in "+encoding+", the limit is "+strconv.Itoa(s.MaxSegments)+
				" (deliver.sms.max_segments)",
		)
	}
	return segments, nil
}

// isJSON refuses payloads that are not declared as JSON.
func isJSON(contentType string) error {
	if contentType == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" {
		return setting.Error(
			"content_type", contentType,
			`must be application/json, with a payload such as {"to": "+4915112345678", "text": "hello"}`,
		)
	}
	return nil
}

// isNumber reports whether s is a phone number in E.164 format. The shortest valid numbers have 7 digits, including the
// country code.
func isNumber(s string) bool {
	return len(s) >= 8 && len(s) <= 16 && s[0] == '+' && s[1] != '0' && digits(s[1:])
}

func digits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// checkFrom checks a sender: a phone number, a short code or a name.
func checkFrom(at, from string) error {
	if isNumber(from) || len(from) >= 3 && len(from) <= 8 && digits(from) {
		return nil
	}
	letters := strings.IndexFunc(from, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }) >= 0
	odd := strings.IndexFunc(from, func(r rune) bool {
		return r != ' ' && !isPlain(r) && !strings.ContainsRune("+&", r)
	}) >= 0
	if letters && !odd && len(from) <= 11 && strings.TrimSpace(from) == from {
		return nil
	}
	return setting.Error(
		at, from,
		`must be a phone number as E.164 has it ("+4915112345678"), a short code of 3 to 8 digits, or a name of `+
			`up to 11 letters, digits, spaces, +, -, _ and & with a letter in it`,
	)
}

func isPlain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}
