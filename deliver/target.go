package deliver

import (
	stdjson "encoding/json"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
)

// Defaults and limits of a Target.
const (
	DefaultTimeout = 10 * time.Second
	MinTimeout     = 10 * time.Millisecond
	MaxTimeout     = time.Hour
	MaxURLBytes    = 2048
)

// Target is a queue's deliver setting: where its jobs go.
type Target struct {
	Kind string // http, say: its name in the setting
	setting.Setting
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
	if len(strings.TrimSpace(string(raw))) == 0 {
		return Target{}, noTarget("")
	}
	if len(raw) > queue.MaxDeliverBytes {
		return Target{}, setting.Error("deliver", "", "has "+strconv.Itoa(len(raw))+" bytes, the limit is "+strconv.Itoa(queue.MaxDeliverBytes))
	}
	var named map[string]jsontext.Value
	if err := setting.Decode(raw, "deliver", &named); err != nil {
		return Target{}, err
	}
	if _, err := Unmask(raw, nil); err != nil { // nothing is stored here that it could stand for
		return Target{}, err
	}
	if len(named) != 1 {
		return Target{}, noTarget("")
	}
	for name, value := range named {
		k, ok := kinds[name]
		if value.Kind() == 'n' {
			return Target{}, noTarget("")
		}
		if !ok {
			return Target{}, noTarget(name)
		}
		s := k.setting()
		at := "deliver." + name
		if err := setting.Decode(value, at, s); err != nil {
			return Target{}, err
		}
		if err := s.Check(at); err != nil {
			return Target{}, err
		}
		return Target{Kind: name, Setting: s}, nil
	}
	panic("unreachable: it has one")
}

func noTarget(name string) error {
	if name != "" {
		return setting.Error("deliver."+name, "", "is no target; one of "+strings.Join(sorted(kinds), ", "))
	}
	return setting.Error("deliver", "", `names no target; name one, such as {"http": {"url": "https://api.example.com/v1/send"}}; there are `+strings.Join(sorted(kinds), ", "))
}

// Check implements setting.Setting.
func (h *HTTP) Check(at string) error {
	at += "."
	if err := h.checkURL(at + "url"); err != nil {
		return err
	}
	if h.Timeout.D() < MinTimeout || h.Timeout.D() > MaxTimeout {
		return setting.Error(at+"timeout", h.Timeout.String(), "must be from "+MinTimeout.String()+" to "+MaxTimeout.String())
	}
	return h.checkHeaders(at + "headers")
}

func (h *HTTP) checkURL(at string) error {
	const want = "must be an http or https URL such as https://api.example.com/v1/send"
	if h.URL == "" {
		return setting.Error(at, "", "is missing; it "+want)
	}
	shown := MaskURL(h.URL)
	if len(h.URL) > MaxURLBytes {
		return setting.Error(at, shown, "is longer than "+strconv.Itoa(MaxURLBytes)+" bytes")
	}
	u, err := url.Parse(h.URL)
	// What url.Parse says may quote a password.
	if err != nil || strings.IndexFunc(h.URL, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return setting.Error(at, "", want+`, with everything but visible ASCII percent-encoded`)
	}
	switch {
	case u.User != nil:
		return setting.Error(at, "", "must not have a user and password in it; set the Authorization header in deliver.http.headers")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return setting.Error(at, shown, want)
	case u.Fragment != "" || strings.Contains(h.URL, "#"):
		return setting.Error(at, shown, "must not have a fragment (#): it is never sent")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return setting.Error(at, shown, "has no valid port; ports are 1 to 65535")
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
		return setting.Error(at, "", "are "+strconv.Itoa(len(h.Headers))+", the limit is "+strconv.Itoa(queue.MaxHeaders))
	}
	canonical := make(map[string]string, len(h.Headers))
	size := 0
	for _, name := range sorted(h.Headers) {
		value := h.Headers[name]
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
		return setting.Error(at, "", "have "+strconv.Itoa(size)+" bytes together, the limit is "+strconv.Itoa(queue.MaxHeaderBytes))
	}
	h.Headers = canonical
	return nil
}

// Accept implements setting.Setting: any job can be posted.
func (h *HTTP) Accept(*queue.Job) error { return nil }

// OnUnknown implements setting.Setting: the receiver can recognise the id.
func (h *HTTP) OnUnknown() string { return queue.UnknownRetry }

func sorted[V any](m map[string]V) []string {
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
