package httptarget

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/deliver/usage"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// Defaults and limits of a Target.
const (
	DefaultTimeout = 10 * time.Second
	MinTimeout     = 10 * time.Millisecond
	MaxTimeout     = time.Hour
	MaxURLBytes    = 2048

	MaxMaxConnections = 10_000
)

// Target is the setting of a receiver to which jobs are posted. ${secret:NAME} stands for a secret in the URL's path
// and query, in the values of headers, signing and TLS, and in a proxy's password.
type Target struct {
	URL    string `json:"url"`
	Method string `json:"method,omitempty"` // POST, PUT or PATCH
	// Timeout is the maximum time from the departure to the end of the answer's headers.
	Timeout unit.Duration `json:"timeout,omitempty"`
	// Headers are sent with every job, and override the job's own.
	Headers map[string]string `json:"headers,omitempty"`
	// Statuses override the meanings of answers, by status (409) or class (4xx).
	Statuses map[string]string `json:"statuses,omitempty"`
	Signing  *Signing          `json:"signing,omitempty"`
	TLS      *TLS              `json:"tls,omitempty"`
	// MaxConnections is the maximum number of connections from a drainer to the receiver; the default is its number of
	// handlers.
	MaxConnections *int `json:"max_connections,omitempty"`
	// Proxy is the URL of a proxy, or Environment. The default is none, whatever the environment.
	Proxy string `json:"proxy,omitempty"`
	// PassAuthorization passes the Authorization of the callers of a proxied queue on. By default it is removed.
	PassAuthorization bool `json:"pass_authorization,omitempty"`
	// Actual says where answers state what a call has used.
	Actual usage.Setting `json:"actual,omitempty"`

	proxy  *proxy
	refers bool          // to secrets
	uses   []setting.Use // of secrets
	hidden []string      // the secrets, once they are resolved

	// Made once by check, and not for each job.
	wire  *wire
	usage *usage.Plan // of Actual
	print string      // the fingerprint
}

var _ setting.Hosted = (*Target)(nil)

// Default returns a setting with its defaults.
func Default() *Target {
	return &Target{Method: http.MethodPost, Timeout: unit.Duration(DefaultTimeout)}
}

// Check implements setting.Setting.
func (t *Target) Check(at string) error {
	for field, text := range t.texts() {
		if err := secrets.Check(at+"."+field, *text); err != nil {
			return err
		}
		t.refers = t.refers || strings.Contains(*text, "${")
	}
	for name, value := range t.Headers {
		if err := secrets.Check(at+".headers."+name, value); err != nil {
			return err
		}
		t.refers = t.refers || strings.Contains(value, "${")
	}
	if err := secrets.Check(at+".proxy", t.Proxy); err != nil {
		return err
	}
	t.refers = t.refers || strings.Contains(t.Proxy, "${")
	var err error
	if t.proxy, err = parseProxy(at+".proxy", t.Proxy); err != nil {
		return err
	}
	if t.usage, err = t.Actual.Plan(at + ".actual"); err != nil {
		return err
	}
	if err := t.check(at); err != nil {
		return err
	}
	if t.refers {
		t.uses = slices.DeleteFunc(t.Uses(), func(u setting.Use) bool { return !strings.Contains(u.Text, "${") })
	}
	return nil
}

// check checks everything but references to secrets.
func (t *Target) check(at string) error {
	at += "."
	if err := t.checkURL(at + "url"); err != nil {
		return err
	}
	switch t.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	default:
		return setting.Error(at+"method", t.Method, "must be POST, PUT or PATCH: the payload is the body")
	}
	if t.Timeout.D() < MinTimeout || t.Timeout.D() > MaxTimeout {
		return setting.Error(at+"timeout", t.Timeout.String(), "must be from "+MinTimeout.String()+" to "+MaxTimeout.String())
	}
	if err := t.checkHeaders(at + "headers"); err != nil {
		return err
	}
	if err := checkStatuses(at+"statuses", t.Statuses); err != nil {
		return err
	}
	if err := t.Signing.check(at+"signing", t.refers); err != nil {
		return err
	}
	if n := t.MaxConnections; n != nil && (*n < 1 || *n > MaxMaxConnections) {
		return setting.Error(at+"max_connections", strconv.Itoa(*n), "must be from 1 to "+strconv.Itoa(MaxMaxConnections))
	}
	if err := t.TLS.check(at + "tls"); err != nil {
		return err
	}
	t.wire = nil // a copy with resolved secrets gets its own
	w, err := t.wired()
	if err != nil {
		return errURL
	}
	t.wire = w
	t.print = t.TLS.fingerprint() + t.proxy.fingerprint()
	return nil
}

// fingerprint returns a text that differs for targets that cannot share connections.
func (t *Target) fingerprint() string {
	if t.wire == nil { // not checked
		return t.TLS.fingerprint() + t.proxy.fingerprint()
	}
	return t.print
}

func (t *Target) checkURL(at string) error {
	const want = "must be an http or https URL such as https://api.example.com/v1/send"
	if t.URL == "" {
		return setting.Error(at, "", "is missing; it "+want)
	}
	shown := secrets.MaskURL(t.URL)
	if len(t.URL) > MaxURLBytes {
		return setting.Error(at, shown, "is longer than "+strconv.Itoa(MaxURLBytes)+" bytes")
	}
	if strings.Contains(authority(t.URL), "${") {
		return setting.Error(
			at, "", "refers to a secret in its host; only path and query can, because people must see the host",
		)
	}
	u, err := url.Parse(t.URL)
	// The error of url.Parse is not wrapped, because it may quote a password.
	if err != nil || strings.IndexFunc(t.URL, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return setting.Error(at, "", want+`, with everything but visible ASCII percent-encoded`)
	}
	switch {
	case u.User != nil:
		return setting.Error(
			at, "", "must not have a user and password in it; set the Authorization header in deliver.http.headers",
		)
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return setting.Error(at, shown, want)
	case u.Fragment != "" || strings.Contains(t.URL, "#"):
		return setting.Error(at, shown, "must not have a fragment (#): it is never sent")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return setting.Error(at, shown, "has no valid port; ports are 1 to 65535")
		}
	}
	return checkHost(at, u.Hostname())
}

// authority returns the part of a URL between scheme and path.
func authority(text string) string {
	if _, behind, ok := strings.Cut(text, "://"); ok {
		text = behind
	}
	if i := strings.IndexAny(text, "/?#"); i >= 0 {
		text = text[:i]
	}
	return text
}

// Accept implements setting.Setting: any job can be posted.
func (t *Target) Accept(*queue.Job) error { return nil }

// OnUnknown implements setting.Setting: the receiver can recognize the id.
func (t *Target) OnUnknown() string { return queue.UnknownRetry }

// Hosts implements setting.Hosted.
func (t *Target) Hosts() []setting.Host {
	hosts := []setting.Host{setting.HostOf("url", t.URL)}
	if t.proxy != nil && !t.proxy.environment {
		hosts = append(hosts, setting.HostOf("proxy", t.proxy.where()))
	}
	return hosts
}

// Exposes implements setting.Hosted.
func (t *Target) Exposes(before setting.Setting) (field, reason string) {
	b, ok := before.(*Target)
	if !ok {
		return "url", setting.OtherHost
	}
	if reason := setting.Exposed(t.URL, b.URL); reason != "" {
		return "url", reason
	}
	if !strings.EqualFold(t.proxy.where(), b.proxy.where()) {
		return "proxy", "is another than before"
	}
	if now, then := t.TLS.trusts(), b.TLS.trusts(); now != then {
		return "tls", "trusts another receiver than before"
	}
	return "", ""
}
