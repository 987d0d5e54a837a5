package httptarget

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
)

// hide hides the values of headers, and secrets in the URL, in a receiver's answer: some receivers echo the request,
// and answers are kept and shown.
func hide(text string, job *drain.Job, target *Target) string {
	if text == "" {
		return text
	}
	sent := slices.Clone(target.hidden)
	var others []string
	for _, headers := range []map[string]string{target.Headers, job.Headers} {
		for name, value := range headers {
			if secrets.IsSensitive(name) {
				sent = append(sent, value)
			} else {
				others = append(others, value)
			}
		}
	}
	for _, value := range secrets.InURL(target.URL) {
		sent = append(sent, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			sent = append(sent, plain)
		}
	}
	return secrets.NewHider(sent...).Whole(others...).Hide(text)
}

// veiled is an error with another text.
type veiled struct {
	err  error
	text string
}

func (v *veiled) Error() string { return v.text }
func (v *veiled) Unwrap() error { return v.err }

// Veil returns an error that wraps err, with a text in which hide has hidden the secrets. Some errors of net/http quote
// the receiver.
func Veil(err error, hide func(string) string) error {
	text := err.Error()
	if shown := hide(text); shown != text {
		return &veiled{err, shown}
	}
	return err
}

// hideInHeaders hides the secrets of a target in the headers of an answer: some receivers echo the request.
func hideInHeaders(h http.Header, target *Target) {
	if len(target.hidden) == 0 {
		return
	}
	hider := secrets.NewHider(target.hidden...)
	for _, values := range h {
		for i, value := range values {
			values[i] = hider.Hide(value)
		}
	}
}

// hideSecrets hides the secrets of a target.
func hideSecrets(text string, target *Target) string {
	return secrets.NewHider(target.hidden...).Hide(text)
}
