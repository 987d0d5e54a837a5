package api

import (
	"cmp"
	"net/http"
	"strings"
)

// httpReasons are those of refusals by the HTTP server itself, before there is a request.
var httpReasons = map[int]Reason{
	http.StatusBadRequest:                  ReasonMalformed,
	http.StatusExpectationFailed:           ReasonExpectation,
	http.StatusRequestHeaderFieldsTooLarge: ReasonHeaderTooLarge,
	http.StatusNotImplemented:              ReasonTransferCoding,
	http.StatusHTTPVersionNotSupported:     ReasonHTTPVersion,
}

// details are what to do about them.
var details = map[int]string{
	http.StatusBadRequest:                  "the request is no HTTP that can be read",
	http.StatusExpectationFailed:           "the header Expect may say 100-continue, and nothing else",
	http.StatusRequestHeaderFieldsTooLarge: "the request line and headers are longer than this server takes",
	http.StatusNotImplemented:              "the header Transfer-Encoding may say chunked, once, and nothing else",
	http.StatusHTTPVersionNotSupported:     "this server speaks HTTP/1.1, HTTP/1.0 and, over TLS, HTTP/2",
}

// HTTPRefusal is the body in which a status is told that the HTTP server answers by itself; said is what it has to
// say of it. Nil means that it does not answer so.
func HTTPRefusal(status int, said string) []byte {
	reason, ok := httpReasons[status]
	if !ok {
		return nil
	}
	detail := details[status]
	if status == http.StatusBadRequest && said != "" {
		detail = cmp.Or(strings.TrimSpace(said), detail)
	}
	return (&Problem{Reason: reason, Detail: detail}).appendBody(nil, "")
}
