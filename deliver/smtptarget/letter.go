package smtptarget

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"mime"
	"net/mail"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
)

const (
	// MaxRecipients is the maximum number of recipients of a job, which is one transaction: every server accepts as
	// many (RFC 5321, 4.5.3.1.8).
	MaxRecipients = 100

	maxLine = 998 // RFC 5322, 2.1.1

	typeJSON = "application/json"
	typeMail = "message/rfc822"
)

// letter is a message and its envelope.
type letter struct {
	from string
	to   []string
	text []byte // with CRLF; dots are stuffed when it is sent
	utf8 bool   // the envelope or a header needs SMTPUTF8 (RFC 6531)
	wide bool   // the body needs 8BITMIME (RFC 6152)
}

// letter composes the message of a job. Its error is an *invalid.Error.
func (s *SMTP) letter(job *queue.Job, now time.Time) (*letter, error) {
	contentType := job.ContentType
	if contentType == "" {
		contentType = queue.DefaultContentType
	}
	kind, _, err := mime.ParseMediaType(contentType)
	var l *letter
	switch {
	case err == nil && kind == typeJSON:
		l, err = s.compose(job, now)
	case err == nil && kind == typeMail:
		l, err = s.ready(job, now)
	default:
		return nil, setting.Error(
			"content_type", job.ContentType,
			"cannot be sent as mail; it must be "+typeJSON+", or "+typeMail+" for a complete message",
		)
	}
	if err != nil {
		return nil, err
	}
	if len(l.to) == 0 {
		return nil, setting.Error("payload.to", "", "names no recipient, nor do cc and bcc")
	}
	if len(l.to) > MaxRecipients {
		return nil, tooMany(len(l.to))
	}
	for _, address := range append([]string{l.from}, l.to...) {
		l.utf8 = l.utf8 || !isASCII(address)
	}
	return l, nil
}

func tooMany(n int) error {
	return setting.Error("payload.to", "", fmt.Sprintf(
		"with cc and bcc has %d recipients, the limit is %d: one job is one transaction; split it into several jobs", n,
		MaxRecipients,
	))
}

// add adds a recipient, if it is not there yet.
func (l *letter) add(address string) {
	for _, a := range l.to {
		if a == address {
			return
		}
	}
	l.to = append(l.to, address)
}

// messageID returns the Message-ID. It is the same in every attempt at a job, so that receivers can recognize a
// repeated message.
func (s *SMTP) messageID(job *queue.Job, from string) string {
	domain := s.MessageIDDomain
	if domain == "" {
		domain = domainOf(from)
	}
	sum := sha256.Sum256([]byte(job.Queue + "\x00" + job.ID))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20])) + "@" + domain
}

// checkLines checks the lines of a message. Some servers take a bare CR or LF for the end of a line and others do not,
// which would allow a second message to be smuggled in.
func checkLines(text []byte) error {
	for n := 1; len(text) > 0; n++ {
		end := bytes.IndexByte(text, '\n')
		line := text
		if end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		switch {
		case end >= 0 && !bytes.HasSuffix(line, []byte("\r")):
			return setting.Error(
				"payload", "", "has a bare LF at the end of line "+strconv.Itoa(n)+"; lines of a message end in CRLF",
			)
		case end >= 0:
			line = line[:len(line)-1]
		}
		if bytes.IndexByte(line, '\r') >= 0 {
			return setting.Error("payload", "", "has a bare CR in line "+strconv.Itoa(n)+"; lines of a message end in CRLF")
		}
		if bytes.IndexByte(line, 0) >= 0 {
			return setting.Error("payload", "", "has a NUL in line "+strconv.Itoa(n))
		}
		if len(line) > maxLine {
			return setting.Error("payload", "", fmt.Sprintf(
				"has a line of %d bytes (line %d), the limit is %d", len(line), n, maxLine,
			))
		}
	}
	return nil
}

// sender returns the sender's address, from the payload or the setting.
func (s *SMTP) sender(at, from string) (*mail.Address, error) {
	if from == "" {
		at, from = "from", s.From
	}
	if from == "" {
		return nil, setting.Error("payload.from", "", "is missing, and the queue's deliver.smtp.from names no sender either")
	}
	a, err := parseAddress(from)
	if err != nil {
		return nil, setting.Error(at, from, err.Error())
	}
	return a, s.maySend(at, a.Address)
}

// maySend refuses senders that are neither the setting's own nor allowed: jobs come from many clients, and a server
// with a login accepts any sender.
func (s *SMTP) maySend(at, address string) error {
	if own, err := parseAddress(s.From); err == nil && strings.EqualFold(own.Address, address) ||
		s.AllowFrom.Match(address) {
		return nil
	}
	return setting.Error(
		at, address,
		"is not the queue's sender, deliver.smtp.from, nor one that deliver.smtp.allow_from allows; leave it out, or have "+
			"it allowed",
	)
}
