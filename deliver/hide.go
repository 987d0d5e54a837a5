package deliver

import (
	"net/url"
	"slices"
	"strings"

	"github.com/penstock/penstock/drain"
)

// leastSecret is how long a value is that is looked for: shorter ones would shred what is told.
const leastSecret = 4

// hide replaces what was sent as a header's value, or stands in the URL's query, in what a
// receiver answered: some echo the request, and answers are kept and shown to people.
func hide(text string, job *drain.Job, target *HTTP) string {
	if text == "" {
		return text
	}
	var secrets []string
	add := func(s string) {
		if len(s) >= leastSecret {
			secrets = append(secrets, s)
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
	_, _ = rewriteURL(target.URL, place{}, func(_ place, value string) (string, error) { // it has no error of its own
		add(value)
		if plain, err := url.QueryUnescape(value); err == nil && plain != value {
			add(plain)
		}
		return value, nil
	})
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, Hidden)
	}
	return text
}
