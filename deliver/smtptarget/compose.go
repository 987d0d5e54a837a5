package smtptarget

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime"
	netmail "net/mail"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/wneessen/go-mail"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
)

const (
	maxAttachments     = 100
	maxFileNameBytes   = 255
	maxMailHeaders     = 100
	maxMailHeaderBytes = 16 << 10 // total of names and values
	// maxSpaces is the maximum number of spaces in a row in a header: folding more would make a line of nothing but
	// spaces.
	maxSpaces = 70
)

// message is the payload of a job with type application/json.
type message struct {
	From        string            `json:"from"`
	To          addresses         `json:"to"`
	CC          addresses         `json:"cc"`
	BCC         addresses         `json:"bcc"`
	ReplyTo     addresses         `json:"reply_to"`
	Subject     string            `json:"subject"`
	Text        string            `json:"text"`
	HTML        string            `json:"html"`
	Attachments []attachment      `json:"attachments"`
	Headers     map[string]string `json:"headers"`
}

type attachment struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type"`
	Content     []byte `json:"content"`
}

// addresses is a list of addresses, or a single one.
type addresses []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *addresses) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*a = make(addresses, 1)
		return json.Unmarshal(raw, &(*a)[0])
	}
	return json.Unmarshal(raw, (*[]string)(a))
}

// compose composes the message that a payload describes.
func (s *SMTP) compose(job *queue.Job, now time.Time) (*letter, error) {
	var p message
	if err := setting.Decode(job.Payload, "payload", &p); err != nil {
		return nil, err
	}
	from, err := s.sender("payload.from", p.From)
	if err != nil {
		return nil, err
	}
	l := &letter{from: from.Address}
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	m.FromMailAddress(from)
	m.SetMessageIDWithValue(s.messageID(job, from.Address))
	m.SetDateWithValue(now)
	if err := p.address(m, l); err != nil {
		return nil, err
	}
	if err := p.headers(m); err != nil {
		return nil, err
	}
	if err := p.body(m); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if _, err := m.WriteTo(&text); err != nil {
		return nil, setting.Error("payload", "", "cannot be composed as a message: "+err.Error())
	}
	l.text = refold(text.Bytes())
	return l, checkLines(l.text)
}

var blanks = regexp.MustCompile(`(\r\n[ \t]+)+\r\n`)

// refold removes lines of nothing but spaces from a message's header, which RFC 5322 forbids. Folding makes them even
// from fewer spaces in a row.
func refold(text []byte) []byte {
	end := bytes.Index(text, []byte("\r\n\r\n"))
	if end < 0 || !blanks.Match(text[:end+2]) {
		return text
	}
	return slices.Concat(blanks.ReplaceAll(text[:end+2], []byte("\r\n")), text[end+2:])
}

func (p *message) address(m *mail.Msg, l *letter) error {
	for _, field := range []struct {
		name   string
		from   addresses
		header func(...*netmail.Address)
		sent   bool // these addresses are recipients
	}{
		{"to", p.To, m.ToMailAddress, true},
		{"cc", p.CC, m.CcMailAddress, true},
		{"bcc", p.BCC, nil, true},
		{"reply_to", p.ReplyTo, m.ReplyToMailAddress, false},
	} {
		if len(field.from) > MaxRecipients {
			return tooMany(len(field.from))
		}
		var all []*netmail.Address
		for i, text := range field.from {
			a, err := parseAddress(text)
			if err != nil {
				return setting.Error("payload."+field.name+"["+strconv.Itoa(i)+"]", text, err.Error())
			}
			all = append(all, a)
			l.utf8 = l.utf8 || !isASCII(a.Address)
			if field.sent {
				l.add(a.Address)
			}
		}
		if len(all) > 0 && field.header != nil {
			field.header(all...)
		}
	}
	return nil
}

// ownMailHeaders are set from the rest of the payload, or by the transport.
var ownMailHeaders = []string{
	"From", "Sender", "To", "Cc", "Bcc", "Reply-To", "Subject", "Date", "Message-Id", "Mime-Version", "Return-Path",
	"Received", "Delivered-To",
}

func (p *message) headers(m *mail.Msg) error {
	if !isText(p.Subject) {
		return setting.Error("payload.subject", p.Subject, "has a control character, such as a line's end, in it")
	}
	if spaced(p.Subject) {
		return setting.Error("payload.subject", "", tooSpaced)
	}
	m.Subject(p.Subject)
	if len(p.Headers) > maxMailHeaders {
		return setting.Error("payload.headers", "", fmt.Sprintf("are %d, the limit is %d", len(p.Headers), maxMailHeaders))
	}
	size, seen := 0, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		value, at := p.Headers[name], "payload.headers"
		if !isFieldName(name) {
			return setting.Error(at, name, "is not a header name: it must be visible ASCII without a colon")
		}
		at += "." + name
		key := textproto.CanonicalMIMEHeaderKey(name)
		switch size += len(name) + len(value); {
		case slices.Contains(ownMailHeaders, key) || strings.HasPrefix(key, "Content-") || strings.HasPrefix(key, "Resent-"):
			return setting.Error(at, "", "follows from the rest of the payload, and cannot be set")
		case seen[key]:
			return setting.Error(at, "", "is given twice, in different spellings")
		case !isText(value):
			return setting.Error(at, value, "has a control character, such as a line's end, in it")
		case spaced(value):
			return setting.Error(at, "", tooSpaced)
		case size > maxMailHeaderBytes:
			return setting.Error("payload.headers", "", "have more than "+strconv.Itoa(maxMailHeaderBytes)+" bytes together")
		}
		seen[key] = true
		m.SetGenHeader(mail.Header(name), value)
	}
	return nil
}

var tooSpaced = "has more than " + strconv.Itoa(maxSpaces) + " spaces in a row in it"

func spaced(text string) bool { return strings.Contains(text, strings.Repeat(" ", maxSpaces+1)) }

func (p *message) body(m *mail.Msg) error {
	for name, text := range map[string]string{"text": p.Text, "html": p.HTML} {
		if strings.ContainsRune(text, 0) {
			return setting.Error("payload."+name, "", "has a NUL in it")
		}
	}
	if p.Text != "" || p.HTML == "" {
		m.SetBodyString(mail.TypeTextPlain, p.Text)
		if p.HTML != "" {
			m.AddAlternativeString(mail.TypeTextHTML, p.HTML)
		}
	} else {
		m.SetBodyString(mail.TypeTextHTML, p.HTML)
	}
	if len(p.Attachments) > maxAttachments {
		return setting.Error("payload.attachments", "", fmt.Sprintf(
			"are %d, the limit is %d", len(p.Attachments), maxAttachments,
		))
	}
	for i, a := range p.Attachments {
		at := "payload.attachments[" + strconv.Itoa(i) + "]."
		if a.Name == "" || len(a.Name) > maxFileNameBytes || !isText(a.Name) {
			return setting.Error(
				at+"name", a.Name,
				"must be the name of a file, of at most "+strconv.Itoa(maxFileNameBytes)+" bytes, without control characters",
			)
		}
		kind, err := mediaType(a.ContentType)
		if err != nil {
			return setting.Error(at+"content_type", a.ContentType, err.Error())
		}
		if err := m.AttachReader(
			a.Name, bytes.NewReader(a.Content), mail.WithFileContentType(mail.ContentType(kind)),
		); err != nil {
			return setting.Error(at+"content", "", "cannot be attached: "+err.Error())
		}
	}
	return nil
}

// mediaType formats a media type anew, so that nothing else can be in it.
func mediaType(text string) (string, error) {
	if text == "" {
		return "application/octet-stream", nil
	}
	kind, parameters, err := mime.ParseMediaType(text)
	if err != nil || !isText(text) || !strings.Contains(kind, "/") {
		return "", errors.New("must be a media type, such as application/pdf")
	}
	if strings.HasPrefix(kind, "multipart/") || strings.HasPrefix(kind, "message/") {
		return "", errors.New(
			"cannot be attached as it is: content is sent as base64, which RFC 2046 forbids for it; give " +
				"application/octet-stream",
		)
	}
	delete(parameters, "name") // follows
	if kind = mime.FormatMediaType(kind, parameters); kind == "" || len(kind) > queue.MaxContentTypeBytes {
		return "", errors.New("must be a media type, such as application/pdf")
	}
	return kind, nil
}

// isFieldName reports whether a name is RFC 5322's ftext, of limited length.
func isFieldName(s string) bool {
	return s != "" && len(s) <= 76 && strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || r == ':'
	}) < 0
}
