package post

import (
	"net/url"
	"slices"
	"strings"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
)

// leastSecret is how long a value is that is looked for: shorter ones would shred what is told.
const leastSecret = 4

// hide replaces what was sent as a header's value, or stands in the URL's query, in what a
// receiver answered: some echo the request, and answers are kept and shown to people.
func hide(text string, job *drain.Job, target *Target) string {
	if text == "" {
		return text
	}
	var hidden []string
	add := func(s string) {
		if len(s) >= leastSecret {
			hidden = append(hidden, s)
		}
	}
	for _, headers := range []map[string]string{target.Headers, job.Headers} {
		for _, value := range headers {
			add(value)
			if _, credentials, two := strings.Cut(value, " "); two { // behind Bearer, say
				add(credentials)
			}
		}
	}
	for _, value := range target.hidden {
		add(value)
	}
	for _, value := range secrets.InURL(target.URL) {
		add(value)
		if plain, err := url.QueryUnescape(value); err == nil && plain != value {
			add(plain)
		}
	}
	slices.SortFunc(hidden, func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	for _, s := range hidden {
		text = strings.ReplaceAll(text, s, secrets.Hidden)
	}
	return text
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
