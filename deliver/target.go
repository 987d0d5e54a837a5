package deliver

import (
	stdjson "encoding/json"
	"errors"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue"
)

// Defaults and limits of a Target.
const (
	DefaultTimeout = 10 * time.Second
	MinTimeout     = 10 * time.Millisecond
	MaxTimeout     = time.Hour
	MaxURLBytes    = 2048
)

// Target is a queue's deliver setting: where its jobs go. Exactly one is named.
type Target struct {
	HTTP *HTTP `json:"http,omitempty"`
}

// HTTP is a receiver that jobs are posted to.
type HTTP struct {
	URL string `json:"url"`
	// Timeout is for the whole exchange, from the departure to the end of the answer's
	// headers.
	Timeout queue.Duration `json:"timeout,omitempty"`
	// Headers are sent with every job, and win over the job's own.
	Headers map[string]string `json:"headers,omitempty"`
}

// Parse reads and checks a deliver setting and fills in defaults. Unknown and repeated
// names are errors, and so is Hidden in place of a secret; all errors are *queue.FieldError with
// the field's path, such as deliver.http.url, and none shows a secret.
func Parse(raw stdjson.RawMessage) (Target, error) {
	var t Target
	if len(strings.TrimSpace(string(raw))) == 0 {
		return t, noTarget()
	}
	if len(raw) > queue.MaxDeliverBytes {
		return t, field("deliver", "", "has "+strconv.Itoa(len(raw))+" bytes, the limit is "+strconv.Itoa(queue.MaxDeliverBytes))
	}
	if err := json.Unmarshal(raw, &t, json.RejectUnknownMembers(true)); err != nil {
		return Target{}, parseError(err)
	}
	if t.HTTP == nil {
		return Target{}, noTarget()
	}
	// Once more over the defaults: what is written, a zero too, is taken at its word.
	t.HTTP = &HTTP{Timeout: queue.Duration(DefaultTimeout)}
	if err := json.Unmarshal(raw, &t); err != nil {
		return Target{}, parseError(err)
	}
	if _, err := Unmask(raw, nil); err != nil { // nothing is stored here that it could stand for
		return Target{}, err
	}
	if err := t.HTTP.check(); err != nil {
		return Target{}, err
	}
	return t, nil
}

func noTarget() error {
	return field("deliver", "", `names no target; give one, such as {"http": {"url": "https://api.example.com/v1/send"}}`)
}

func field(path, value, reason string) error {
	if value != "" {
		value = queue.Shorten(value, 80)
	}
	return &queue.FieldError{Field: path, Value: value, Reason: reason}
}

func parseError(err error) error {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		path := dotted(syntactic.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return field(path, "", "is given twice")
		}
		return field(path, "", "is not valid JSON: "+syntactic.Err.Error())
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return field("deliver", "", "is not valid JSON")
	}
	path := dotted(semantic.JSONPointer)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return field(path, "", "is not a field of a target; known are http with url, timeout and headers")
	case strings.HasSuffix(path, ".timeout"):
		return field(path, string(semantic.JSONValue), `must be a duration such as "10s"`)
	case strings.HasSuffix(path, ".headers"), path == "deliver.http", path == "deliver":
		return field(path, "", "must be an object")
	default:
		return field(path, "", "must be a string")
	}
}

func dotted(p jsontext.Pointer) string {
	path := "deliver"
	for token := range p.Tokens() {
		path += "." + token
	}
	if len(path) > 120 {
		path = strings.ToValidUTF8(path[:120], "") + "..."
	}
	return path
}

func (h *HTTP) check() error {
	const at = "deliver.http."
	if err := h.checkURL(at + "url"); err != nil {
		return err
	}
	if h.Timeout.D() < MinTimeout || h.Timeout.D() > MaxTimeout {
		return field(at+"timeout", h.Timeout.String(), "must be from "+MinTimeout.String()+" to "+MaxTimeout.String())
	}
	return h.checkHeaders(at + "headers")
}

func (h *HTTP) checkURL(at string) error {
	const want = "must be an http or https URL such as https://api.example.com/v1/send"
	if h.URL == "" {
		return field(at, "", "is missing; it "+want)
	}
	shown := MaskURL(h.URL)
	if len(h.URL) > MaxURLBytes {
		return field(at, shown, "is longer than "+strconv.Itoa(MaxURLBytes)+" bytes")
	}
	u, err := url.Parse(h.URL)
	// What url.Parse says may quote a password.
	if err != nil || strings.IndexFunc(h.URL, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return field(at, "", want+`, with everything but visible ASCII percent-encoded`)
	}
	switch {
	case u.User != nil:
		return field(at, "", "must not have a user and password in it; set the Authorization header in deliver.http.headers")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return field(at, shown, want)
	case u.Fragment != "" || strings.Contains(h.URL, "#"):
		return field(at, shown, "must not have a fragment (#): it is never sent")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return field(at, shown, "has no valid port; ports are 1 to 65535")
		}
	}
	return nil
}

// Headers that a target cannot set, and why.
var ownHeaders = map[string]string{
	"Content-Type":     "is the job's",
	"Idempotency-Key":  "is the job's id",
	HeaderID:           "is set for each job",
	HeaderQueue:        "is set for each job",
	HeaderAttempt:      "is set for each job",
	"Host":             "follows from the URL",
	"Content-Length":   "follows from the payload",
	"Accept-Encoding":  "would compress the answer, of which only an excerpt is kept",
	"Expect":           "would send the payload behind the gate's back",
	"Connection":       "concerns the connection, which many jobs share",
	"Keep-Alive":       "concerns the connection, which many jobs share",
	"Proxy-Connection": "concerns the connection, which many jobs share",
	"Te":               "concerns the connection, which many jobs share",
	"Trailer":          "concerns the connection, which many jobs share",
	"Upgrade":          "concerns the connection, which many jobs share",

	"Transfer-Encoding": "concerns the connection, which many jobs share",
}

func (h *HTTP) checkHeaders(at string) error {
	if len(h.Headers) > queue.MaxHeaders {
		return field(at, "", "are "+strconv.Itoa(len(h.Headers))+", the limit is "+strconv.Itoa(queue.MaxHeaders))
	}
	canonical := make(map[string]string, len(h.Headers))
	size := 0
	for _, name := range sorted(h.Headers) {
		value := h.Headers[name]
		size += len(name) + len(value)
		if name == "" || strings.IndexFunc(name, notToken) >= 0 {
			return field(at, name, "is not a header name")
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		if why, own := ownHeaders[key]; own {
			return field(at+"."+name, "", why+" and cannot be set")
		}
		if _, twice := canonical[key]; twice {
			return field(at+"."+name, "", "is given twice, in different spellings")
		}
		// The value may be a secret: it is not shown.
		if strings.IndexFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r > '~' }) >= 0 {
			return field(at+"."+name, "", "has a control or non-ASCII character")
		}
		canonical[key] = value
	}
	if size > queue.MaxHeaderBytes {
		return field(at, "", "have "+strconv.Itoa(size)+" bytes together, the limit is "+strconv.Itoa(queue.MaxHeaderBytes))
	}
	h.Headers = canonical
	return nil
}

func sorted(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func notToken(r rune) bool { // RFC 9110, 5.6.2
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}
