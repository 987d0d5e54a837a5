package httptarget

import (
	"net/url"
	"slices"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
)

// hide hides what was sent as a header's value, or stands in the URL's query, in what a receiver answered: some echo
// the request, and answers are kept and shown.
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

// veiled is an error that shows no secrets, and says besides what the one inside it does.
type veiled struct {
	err  error
	text string
}

func (v *veiled) Error() string { return v.text }
func (v *veiled) Unwrap() error { return v.err }

// Veil hides secrets in what an error says, and leaves it what it is: some of net/http's quote what the receiver sent.
func Veil(err error, hide func(string) string) error {
	text := err.Error()
	if shown := hide(text); shown != text {
		return &veiled{err, shown}
	}
	return err
}
