package ops

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Beginnings of refusals that net/http writes itself. No handler's answer begins like this: each has a Date header.
// Neither does a fragment of a body: JSON has no such line of text, and metrics have no empty line.
var (
	ownHead = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	own417  = []byte(" 417 Expectation Failed\r\n")
)

const protocolBytes = len("HTTP/1.1")

// explained returns a replacement for b if b is a refusal that net/http writes itself, for an invalid or unsupported
// request; otherwise nil. net/http has no hook for these refusals, but writes each at once and in one form. This works
// only without TLS: below TLS the bytes are encrypted, and above TLS net/http needs a *tls.Conn for HTTP/2 and client
// certificates.
func explained(b []byte, own func(status int, said string) []byte) []byte {
	// Hardly any write of a handler passes this check.
	if len(b) <= protocolBytes+4 || b[protocolBytes] != ' ' || b[protocolBytes+1] < '4' || b[0] != 'H' {
		return nil
	}
	status, said, ok := ownRefusal(b)
	if !ok {
		return nil
	}
	body := own(status, said)
	if body == nil {
		return nil
	}
	const head = "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: application/problem+json\r\n" +
		"Content-Length: %d\r\nConnection: close\r\n\r\n"
	return fmt.Appendf(nil, head+"%s",
		status, http.StatusText(status), time.Now().UTC().Format(http.TimeFormat), len(body), body)
}

// ownRefusal parses a refusal of the form "HTTP/1.1 400 Bad Request: why", followed by ownHead.
func ownRefusal(b []byte) (status int, said string, ok bool) {
	if !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return 0, "", false
	}
	if bytes.HasPrefix(b[protocolBytes:], own417) { // net/http writes this one without a body
		return http.StatusExpectationFailed, "", true
	}
	end := bytes.IndexByte(b, '\r')
	if end < 0 || !bytes.HasPrefix(b[end:], ownHead) {
		return 0, "", false
	}
	number, text, _ := bytes.Cut(b[protocolBytes+1:end], []byte(" "))
	status, err := strconv.Atoi(string(number))
	_, why, _ := bytes.Cut(text, []byte(": "))
	return status, string(why), err == nil
}
