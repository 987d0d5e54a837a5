package httptarget

import (
	"maps"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
)

// Headers that a target cannot set, and why.
var ownHeaders = map[string]string{
	"Content-Type":         "is the job's",
	"Idempotency-Key":      "is the job's id",
	setting.HeaderID:       "is set for each job",
	setting.HeaderQueue:    "is set for each job",
	setting.HeaderAttempt:  "is set for each job",
	headerWebhookID:        "is set by deliver.http.signing",
	headerWebhookTimestamp: "is set by deliver.http.signing",
	headerWebhookSignature: "is set by deliver.http.signing",

	"Host":             "follows from the URL",
	"Content-Length":   "follows from the payload",
	"Accept-Encoding":  "would compress the answer, whose beginning is kept as text",
	"Expect":           "would bypass the gate",
	"Connection":       "concerns the connection, which many jobs share",
	"Keep-Alive":       "concerns the connection, which many jobs share",
	"Proxy-Connection": "concerns the connection, which many jobs share",
	"Te":               "concerns the connection, which many jobs share",
	"Trailer":          "concerns the connection, which many jobs share",
	"Upgrade":          "concerns the connection, which many jobs share",

	"Transfer-Encoding": "concerns the connection, which many jobs share",
}

func (t *Target) checkHeaders(at string) error {
	if len(t.Headers) > queue.MaxHeaders {
		return setting.Error(at, "", "are "+strconv.Itoa(len(t.Headers))+", the limit is "+strconv.Itoa(queue.MaxHeaders))
	}
	canonical := make(map[string]string, len(t.Headers))
	size := 0
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		value := t.Headers[name]
		size += len(name) + len(value)
		if name == "" || strings.IndexFunc(name, notToken) >= 0 {
			return setting.Error(at, name, "is not a header name")
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		if why, own := ownHeaders[key]; own {
			return setting.Error(at+"."+name, "", why+" and cannot be set")
		}
		if _, twice := canonical[key]; twice {
			return setting.Error(at+"."+name, "", "is given twice, in different spellings")
		}
		// The value may be a secret: it is not shown.
		if strings.IndexFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r > '~' }) >= 0 {
			return setting.Error(at+"."+name, "", "has a control or non-ASCII character")
		}
		canonical[key] = value
	}
	if size > queue.MaxHeaderBytes {
		return setting.Error(
			at, "", "have "+strconv.Itoa(size)+" bytes together, the limit is "+strconv.Itoa(queue.MaxHeaderBytes),
		)
	}
	t.Headers = canonical
	return nil
}

func notToken(r rune) bool { // RFC 9110, 5.6.2
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}
