package httpio

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Sizes of a page of a list.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// Page reads the parameters after and limit of a list.
func Page(r *http.Request) (after string, limit int, p *Problem) {
	q := r.URL.Query()
	limit, p = Limit(q, DefaultPage, MaxPage)
	return q.Get("after"), limit, p
}

// Limit reads the parameter limit, a number from 1 to most.
func Limit(q url.Values, initial, most int) (int, *Problem) {
	s := q.Get("limit")
	if s == "" {
		return initial, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, BadField("limit", Shorten(s)+" must be a whole number from 1 to "+strconv.Itoa(most))
	}
	return n, nil
}

// Bool reads a parameter that is true or false. Absent, it is false.
func Bool(q url.Values, field string) (bool, *Problem) {
	s := q.Get(field)
	if s == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		return false, BadField(field, Shorten(s)+" must be true or false")
	}
	return v, nil
}

// Once refuses parameters that are given more than once.
func Once(q url.Values, fields ...string) *Problem {
	for _, field := range fields {
		if len(q[field]) > 1 {
			return Duplicate(field)
		}
	}
	return nil
}

// Span reads the parameters since and until. Absent, they stay unchanged.
func Span(q url.Values, since, until *time.Time) *Problem {
	for field, to := range map[string]*time.Time{"since": since, "until": until} {
		s := q.Get(field)
		if s == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return BadField(field, Shorten(s)+" must be an instant such as 2026-01-02T15:04:05Z")
		}
		*to = at
	}
	return nil
}

// NextPage converts up to limit of the items to their form on the wire. A further item means that there is a next page:
// next is then the name to continue after, and a Link header points to that page.
func NextPage[I, S any](
	w http.ResponseWriter, r *http.Request, items []I, limit int, shown func(*I) S, name func(*S) string,
) (page []S, next string) {
	page = make([]S, 0, min(len(items), limit))
	for i := range items {
		if i == limit {
			next = name(&page[i-1])
			query := r.URL.Query()
			query.Set("after", next)
			query.Set("limit", strconv.Itoa(limit))
			w.Header().Set("Link", "<"+r.URL.EscapedPath()+"?"+query.Encode()+`>; rel="next"`)
			break
		}
		page = append(page, shown(&items[i]))
	}
	return page, next
}
