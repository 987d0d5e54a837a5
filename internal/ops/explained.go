package ops

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// What net/http begins its own refusals with. No answer of a handler looks so: each has a Date. Nor does a piece of a
// body that happens to be written by itself: JSON has no line of text in it, and metrics have no empty one.
var (
	ownHead = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	own417  = []byte(" 417 Expectation Failed\r\n")
)

const protocolBytes = len("HTTP/1.1")

// explained is what is written in place of b, if that is a refusal that net/http writes by itself, for what is no
// request, or none that it serves. There is no hook for those, but each is written at once, and in one form. Below
// TLS nothing looks like one, and above it net/http knows no connection but a *tls.Conn: of another it would speak no
// HTTP/2, and tell of no certificate.
func explained(b []byte, own func(status int, said string) []byte) []byte {
	// Of what handlers answer hardly anything comes further than this.
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

// ownRefusal reads what net/http writes as "HTTP/1.1 400 Bad Request: why", followed by ownHead.
func ownRefusal(b []byte) (status int, said string, ok bool) {
	if !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return 0, "", false
	}
	if bytes.HasPrefix(b[protocolBytes:], own417) { // this one is written like an answer, without a body
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
