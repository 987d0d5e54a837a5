package smstarget

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// Defaults and limits of a Setting.
const (
	DefaultURL     = "https://api.twilio.com"
	DefaultTimeout = 15 * time.Second
	MinTimeout     = 10 * time.Millisecond
	MaxTimeout     = 5 * time.Minute
	DefaultGrace   = 10 * time.Second
	MaxGrace       = 10 * time.Minute

	maxURLBytes = 2048
)

// What happens to a text without an answer that the provider does not list.
const (
	NotListedUnknown = "unknown" // it may have been sent: the queue's on_unknown decides
	NotListedRetry   = "retry"   // it was not sent
)

// Setting is a queue's deliver.sms.
type Setting struct {
	// Provider is the name of the provider.
	Provider string `json:"provider"`
	// URL is the URL of the provider's API, without the API's path.
	URL string `json:"url,omitempty"`
	// AllowHTTP permits sending credentials and texts to another machine unencrypted.
	AllowHTTP bool   `json:"allow_http,omitempty"`
	Account   string `json:"account"`
	// AuthToken is the account's token. Alternatively APIKey and APISecret are a key.
	AuthToken string `json:"auth_token,omitempty"`
	APIKey    string `json:"api_key,omitempty"`
	APISecret string `json:"api_secret,omitempty"`
	// From is the sender. Alternatively MessagingService chooses it. Jobs may name another sender only if AllowFrom has
	// a pattern for it, such as +4915*.
	From             string           `json:"from,omitempty"`
	MessagingService string           `json:"messaging_service,omitempty"`
	AllowFrom        setting.Patterns `json:"allow_from,omitempty"`
	// StatusCallback is the URL to which the provider reports the status of texts.
	StatusCallback string `json:"status_callback,omitempty"`
	MaxSegments    int    `json:"max_segments,omitempty"`
	// Timeout is the maximum time from the departure to the end of the answer.
	Timeout unit.Duration `json:"timeout,omitempty"`
	// Grace is how long to ask the provider for a text that got no answer.
	Grace unit.Duration `json:"grace,omitempty"`
	// NotListed decides about a text that the provider does not list by then.
	NotListed string `json:"not_listed,omitempty"`

	hidden []string // the secrets, once they are resolved
}

var (
	_ setting.Hosted  = (*Setting)(nil)
	_ setting.Sending = (*Setting)(nil)
)

// Default returns a Setting with its defaults.
func Default() *Setting {
	return &Setting{
		URL: DefaultURL, MaxSegments: DefaultMaxSegments, NotListed: NotListedUnknown,
		Timeout: unit.Duration(DefaultTimeout), Grace: unit.Duration(DefaultGrace),
	}
}

// Check implements setting.Setting.
func (s *Setting) Check(at string) error {
	at += "."
	if _, ok := providers[s.Provider]; !ok {
		return setting.Error(at+"provider", s.Provider, "is not a known provider; use one of "+strings.Join(known(), ", "))
	}
	for _, check := range []func(string) error{s.checkURLs, s.checkAccount, s.checkSender, s.checkLimits} {
		if err := check(at); err != nil {
			return err
		}
	}
	return nil
}

// Accept implements setting.Setting: a job costs as many intervals as its text has segments.
func (s *Setting) Accept(job *queue.Job) error {
	m, err := s.Message(job)
	if err != nil {
		return err
	}
	if job.Cost == 0 && m.Segments > 1 {
		job.Cost = int64(m.Segments)
	}
	return nil
}

// OnUnknown implements setting.Setting. A text must not arrive twice, and a provider cannot recognize a repeated one.
func (s *Setting) OnUnknown() string { return queue.UnknownHold }

// Hosts implements setting.Hosted.
func (s *Setting) Hosts() []setting.Host {
	return []setting.Host{setting.HostOf("url", s.URL)}
}

// Uses implements setting.Hosted. The status callback is sent to the provider, which calls it.
func (s *Setting) Uses() []setting.Use {
	to := s.Hosts()
	return []setting.Use{
		{Field: "account", Text: s.Account, To: to},
		{Field: "auth_token", Text: s.AuthToken, To: to},
		{Field: "api_key", Text: s.APIKey, To: to},
		{Field: "api_secret", Text: s.APISecret, To: to},
		{Field: "status_callback", Text: s.StatusCallback, To: append(slices.Clip(to), setting.HostOf(
			"status_callback", s.StatusCallback,
		))},
	}
}

// Senders implements setting.Sending. A messaging service is a sender, too.
func (s *Setting) Senders() []setting.Sender {
	all := setting.SendersOf(s.From, s.AllowFrom)
	if s.MessagingService != "" {
		all = append(all, setting.Sender{Field: "messaging_service", Name: s.MessagingService})
	}
	return all
}

// Exposes implements setting.Hosted.
func (s *Setting) Exposes(before setting.Setting) (field, reason string) {
	b, ok := before.(*Setting)
	if !ok {
		return "url", setting.OtherHost
	}
	return "url", setting.Exposed(s.URL, b.URL)
}

func (s *Setting) checkURLs(at string) error {
	u, err := checkURL(at+"url", s.URL)
	if err != nil {
		return err
	}
	if u.RawQuery != "" || u.ForceQuery || strings.Contains(s.URL, "${") {
		return setting.Error(at+"url", "", "must have neither a query nor a secret; the API's path is appended to it")
	}
	if u.Scheme == "http" && !s.AllowHTTP && !isLoopback(u.Hostname()) {
		return setting.Error(
			at+"url", u.Scheme+"://"+u.Host, "would send credentials and texts unencrypted; use https, or set "+at+"allow_http",
		)
	}
	if s.StatusCallback != "" {
		if _, err := checkURL(at+"status_callback", s.StatusCallback); err != nil {
			return err
		}
		return secrets.Check(at+"status_callback", s.StatusCallback)
	}
	return nil
}

// checkURL checks a URL. Its errors quote no part of the URL that may be a secret.
func checkURL(at, text string) (*url.URL, error) {
	const want = "must be a URL such as " + DefaultURL
	if len(text) > maxURLBytes {
		return nil, setting.Error(at, "", "is longer than "+strconv.Itoa(maxURLBytes)+" bytes")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0:
		return nil, setting.Error(at, "", want+", with everything but visible ASCII percent-encoded")
	case u.User != nil:
		return nil, setting.Error(at, "", "must not have a user and password in it")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return nil, setting.Error(at, "", want)
	case strings.Contains(text, "#"):
		return nil, setting.Error(at, "", "must not have a fragment (#): it is never sent")
	}
	if !egress.IsHost(u.Hostname()) {
		return nil, setting.Error(
			at, "",
			"has a host that is neither a name nor an address; write a name such as api.example.com, or an address such as "+
				"192.0.2.1",
		)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, setting.Error(at, "", "has no valid port; ports are 1 to 65535")
		}
	}
	return u, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

func (s *Setting) checkAccount(at string) error {
	for _, f := range []struct {
		name, value string
		secret      bool
	}{
		{"account", s.Account, false},
		{"auth_token", s.AuthToken, true},
		{"api_key", s.APIKey, true},
		{"api_secret", s.APISecret, true},
	} {
		if err := secrets.Check(at+f.name, f.value); err != nil {
			return err
		}
		if !f.secret && !isSID(f.value) && !secrets.IsReference(f.value) {
			return setting.Error(at+f.name, "", `must be the account's SID, such as "AC" and 32 digits and letters`)
		}
		if len(f.value) > 256 || strings.IndexFunc(f.value, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			return setting.Error(at+f.name, "", "must be at most 256 visible ASCII characters")
		}
	}
	switch {
	case strings.Contains(s.APIKey, ":"):
		return setting.Error(at+"api_key", "", "must not have a colon in it")
	case s.AuthToken != "" && (s.APIKey != "" || s.APISecret != ""):
		return setting.Error(at+"auth_token", "", "cannot be given together with api_key and api_secret")
	case s.AuthToken == "" && s.APIKey == "" && s.APISecret == "":
		return setting.Error(at+"auth_token", "", `is missing; give it as "${secret:NAME}", or give api_key and api_secret`)
	case s.AuthToken == "" && s.APIKey == "":
		return setting.Error(at+"api_key", "", "is missing: api_secret is its other half")
	case s.AuthToken == "" && s.APISecret == "":
		return setting.Error(at+"api_secret", "", "is missing: api_key is its other half")
	}
	return nil
}

// isSID reports whether s can be put into a path as it is.
func isSID(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool { return !isPlain(r) }) < 0
}

func (s *Setting) checkSender(at string) error {
	if s.From != "" && s.MessagingService != "" {
		return setting.Error(at+"messaging_service", "", "cannot be given together with from: it chooses the sender")
	}
	if s.MessagingService != "" && !isSID(s.MessagingService) {
		return setting.Error(
			at+"messaging_service", s.MessagingService, `must be the service's SID, such as "MG" and 32 digits and letters`,
		)
	}
	if err := s.AllowFrom.Check(at+"allow_from", nil); err != nil || s.From == "" {
		return err
	}
	return checkFrom(at+"from", s.From)
}

func (s *Setting) checkLimits(at string) error {
	if s.MaxSegments < 1 || s.MaxSegments > MaxSegments {
		return setting.Error(at+"max_segments", strconv.Itoa(s.MaxSegments), "must be from 1 to "+strconv.Itoa(MaxSegments))
	}
	if d := s.Timeout.D(); d < MinTimeout || d > MaxTimeout {
		return setting.Error(at+"timeout", s.Timeout.String(), "must be from "+MinTimeout.String()+" to "+MaxTimeout.String())
	}
	if d := s.Grace.D(); d < 0 || d > MaxGrace {
		return setting.Error(at+"grace", s.Grace.String(), "must be from 0s, which asks once, to "+MaxGrace.String())
	}
	if s.NotListed != NotListedUnknown && s.NotListed != NotListedRetry {
		return setting.Error(at+"not_listed", s.NotListed, "must be "+NotListedUnknown+" or "+NotListedRetry)
	}
	return nil
}

func known() (names []string) {
	for name := range providers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
