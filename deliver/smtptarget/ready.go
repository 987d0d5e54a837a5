package smtptarget

import (
	"bytes"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
)

// field is a header of a ready message as written, with its folds and its CRLF.
type field struct {
	name string // canonical
	raw  []byte
}

// once are fields that a message may have only once (RFC 5322, 3.6). Programs disagree about which of two counts.
var once = []string{
	"from", "sender", "reply-to", "to", "cc", "bcc", "message-id", "in-reply-to", "references", "subject", "date",
}

// ready takes a message as it is, without Bcc and Return-Path, which are not sent. It adds a missing Message-ID or
// date. The envelope comes from the headers.
func (s *SMTP) ready(job *queue.Job, now time.Time) (*letter, error) {
	if err := checkLines(job.Payload); err != nil {
		return nil, err
	}
	head, body, _ := bytes.Cut(job.Payload, []byte("\r\n\r\n"))
	fields, err := split(head)
	if err != nil {
		return nil, err
	}
	l := &letter{utf8: !isASCII(string(head)), wide: !isASCII(string(body))}
	if err := l.envelope(fields, s.maySend); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	has := func(name string) bool {
		return slices.ContainsFunc(fields, func(f field) bool { return f.name == name })
	}
	if !has("message-id") {
		text.WriteString("Message-ID: <" + s.messageID(job, l.from) + ">\r\n")
	}
	if !has("date") {
		text.WriteString("Date: " + now.Format(time.RFC1123Z) + "\r\n")
	}
	for _, f := range fields {
		if f.name != "bcc" && f.name != "return-path" {
			text.Write(f.raw)
		}
	}
	text.WriteString("\r\n")
	text.Write(body)
	l.text = text.Bytes()
	return l, nil
}

// split splits off the headers.
func split(head []byte) ([]field, error) {
	if !utf8.Valid(head) {
		return nil, setting.Error("payload", "", "has a header that is neither ASCII nor UTF-8")
	}
	var fields []field
	seen := map[string]bool{}
	for line := range bytes.SplitSeq(bytes.TrimSuffix(head, []byte("\r\n")), []byte("\r\n")) {
		line = append(slices.Clip(line), "\r\n"...)
		if bytes.ContainsFunc(line[:len(line)-2], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, setting.Error("payload", string(line), "is a header with a control character in it")
		}
		if (line[0] == ' ' || line[0] == '\t') && len(fields) > 0 {
			last := &fields[len(fields)-1]
			last.raw = append(last.raw, line...)
			continue
		}
		name, _, colon := strings.Cut(string(line), ":")
		if !colon || !isFieldName(name) {
			return nil, setting.Error(
				"payload", string(bytes.TrimSpace(line)),
				"is not a header; a message begins with its headers, and an empty line ends them",
			)
		}
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "resent-") {
			return nil, setting.Error(
				"payload", name, "is only for resent messages; put the recipients into To, Cc and Bcc",
			)
		}
		if seen[name] && slices.Contains(once, name) {
			return nil, setting.Error("payload", name, "is a header that is given twice")
		}
		seen[name] = true
		fields = append(fields, field{name, line})
	}
	return fields, nil
}

// envelope sets sender and recipients from the headers. Every sender in the headers must be permitted.
func (l *letter) envelope(fields []field, maySend func(at, address string) error) error {
	read := func(name string) ([]*mail.Address, error) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return nil, nil
		}
		_, value, _ := bytes.Cut(fields[i].raw, []byte(":"))
		text := strings.TrimSpace(strings.NewReplacer("\r\n", "").Replace(string(value)))
		if text == "" {
			return nil, nil
		}
		list, err := mail.ParseAddressList(text)
		if err != nil {
			return nil, setting.Error("payload."+name, text, "is not a list of addresses")
		}
		for _, a := range list {
			if err := checkAddress(a); err != nil {
				return nil, setting.Error("payload."+name, a.Address, err.Error())
			}
		}
		return list, nil
	}
	from, err := read("from")
	if err != nil {
		return err
	}
	if len(from) == 0 {
		return setting.Error("payload.from", "", "is missing: a message has a From header")
	}
	sender, err := read("sender")
	if err != nil {
		return err
	}
	if len(sender) > 1 || len(sender) == 0 && len(from) > 1 {
		return setting.Error("payload.sender", "", "must name one sender, since From names several")
	}
	for at, list := range map[string][]*mail.Address{"payload.from": from, "payload.sender": sender} {
		for _, a := range list {
			if err := maySend(at, a.Address); err != nil {
				return err
			}
		}
	}
	l.from = append(sender, from...)[0].Address
	for _, name := range []string{"to", "cc", "bcc"} {
		list, err := read(name)
		if err != nil {
			return err
		}
		for _, a := range list {
			l.add(a.Address)
		}
		if len(l.to) > MaxRecipients {
			return tooMany(len(l.to))
		}
	}
	return nil
}
