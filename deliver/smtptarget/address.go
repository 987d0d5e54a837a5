package smtptarget

import (
	"errors"
	"net/mail"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of an address: RFC 5321, 4.5.3.1.
const (
	maxLocalBytes  = 64
	maxDomainBytes = 253
	maxPathBytes   = 254
	maxLabelBytes  = 63
	maxNameBytes   = 256
)

// parseAddress parses "a@example.com" or "Ann <a@example.com>". It is strict: an address between the < and > of MAIL
// FROM or RCPT TO cannot end them, begin a parameter or name a route.
func parseAddress(s string) (*mail.Address, error) {
	if len(s) > maxNameBytes+maxPathBytes+16 {
		return nil, errors.New("is longer than an address can be")
	}
	if !utf8.ValidString(s) || strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return nil, errors.New("has a control character, such as a line's end, in it")
	}
	a, err := mail.ParseAddress(s)
	if err != nil || strings.HasSuffix(strings.TrimSpace(s), ";") { // a group
		return nil, errors.New(`is not one address, such as a@example.com or "Ann <a@example.com>"`)
	}
	return a, checkAddress(a)
}

// checkAddress checks an address parsed by package mail, which is more lenient.
func checkAddress(a *mail.Address) error {
	if len(a.Name) > maxNameBytes || !isText(a.Name) { // an encoded word may contain anything
		return errors.New(
			"has a name with a control character in it, or of more than " + strconv.Itoa(maxNameBytes) + " bytes",
		)
	}
	i := strings.LastIndexByte(a.Address, '@')
	if i < 0 {
		return errors.New("has no @")
	}
	local, domain := a.Address[:i], a.Address[i+1:]
	switch {
	case len(a.Address) > maxPathBytes || len(local) > maxLocalBytes:
		return errors.New(
			"is too long: at most " + strconv.Itoa(maxLocalBytes) + " bytes may stand before the @, and " +
				strconv.Itoa(maxPathBytes) + " in all",
		)
	case !isDotAtom(local):
		return errors.New(
			"has a character before the @ that is not allowed: letters, digits, dots between them and " +
				"!#$%&'*+-/=?^_`{|}~ are; " +
				"quotes, spaces and routes are not",
		)
	case !isDomain(domain):
		return errors.New("has no domain after the @; addresses in brackets are not supported")
	}
	return nil
}

// isDotAtom reports whether a text is RFC 5321's Dot-string, with RFC 6531's characters beyond ASCII.
func isDotAtom(s string) bool {
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" || strings.IndexFunc(atom, notAtom) >= 0 {
			return false
		}
	}
	return true
}

func notAtom(r rune) bool {
	if r > '~' {
		return r == utf8.RuneError || !unicode.IsPrint(r)
	}
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r))
}

func isDomain(s string) bool {
	if len(s) > maxDomainBytes || !utf8.ValidString(s) {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxLabelBytes || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.IndexFunc(label, notLabel) >= 0 {
			return false
		}
	}
	return true
}

func notLabel(r rune) bool {
	if r > '~' {
		return r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
	}
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

// isText reports whether a text may stand in a header: it does not end a line, and has no invisible characters.
func isText(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	}) < 0
}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r > '~' }) < 0 }

func domainOf(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }
