package post

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
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

// Target is a receiver that jobs are posted to.
type Target struct {
	URL string `json:"url"`
	// Timeout is for the whole exchange, from the departure to the end of the answer's
	// headers.
	Timeout queue.Duration `json:"timeout,omitempty"`
	// Headers are sent with every job, and win over the job's own.
	Headers map[string]string `json:"headers,omitempty"`
}

var _ setting.Hosted = (*Target)(nil)

// Default is a setting with its defaults.
func Default() *Target { return &Target{Timeout: queue.Duration(DefaultTimeout)} }

// Check implements setting.Setting.
func (t *Target) Check(at string) error {
	at += "."
	if err := t.checkURL(at + "url"); err != nil {
		return err
	}
	if t.Timeout.D() < MinTimeout || t.Timeout.D() > MaxTimeout {
		return setting.Error(at+"timeout", t.Timeout.String(), "must be from "+MinTimeout.String()+" to "+MaxTimeout.String())
	}
	return t.checkHeaders(at + "headers")
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
	u, err := url.Parse(t.URL)
	// What url.Parse says may quote a password.
	if err != nil || strings.IndexFunc(t.URL, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return setting.Error(at, "", want+`, with everything but visible ASCII percent-encoded`)
	}
	switch {
	case u.User != nil:
		return setting.Error(at, "", "must not have a user and password in it; set the Authorization header in deliver.http.headers")
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
	return nil
}

// Accept implements setting.Setting: any job can be posted.
func (t *Target) Accept(*queue.Job) error { return nil }

// OnUnknown implements setting.Setting: the receiver can recognise the id.
func (t *Target) OnUnknown() string { return queue.UnknownRetry }

// Host implements setting.Hosted.
func (t *Target) Host() (field, host string) {
	if u, err := url.Parse(t.URL); err == nil {
		host = u.Hostname()
	}
	return "url", host
}
