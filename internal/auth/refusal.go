package auth

import "net/http"

// Code is why a request was not let in, or something was not allowed. Programs look at it: it is never renamed.
type Code string

// The codes.
const (
	Missing     Code = "missing"
	Malformed   Code = "malformed"
	InURL       Code = "in_url"
	Mistyped    Code = "mistyped"
	Unknown     Code = "unknown"
	Expired     Code = "expired"
	Revoked     Code = "revoked"
	Forbidden   Code = "forbidden"
	Unavailable Code = "unavailable"
)

// codes has a row for each code: its status of HTTP, its error of RFC 6750, and what it is.
var codes = []struct {
	code   Code
	status int
	bearer string
	title  string
}{
	{Missing, http.StatusUnauthorized, "", "the request proves nobody: it needs Authorization: Bearer TOKEN"},
	{Malformed, http.StatusBadRequest, "invalid_request", "the Authorization header cannot be used"},
	{InURL, http.StatusBadRequest, "invalid_request", "a token must not stand in a URL"},
	{Mistyped, http.StatusUnauthorized, "invalid_token", "the token is mistyped"},
	{Unknown, http.StatusUnauthorized, "invalid_token", "nobody is known by this proof"},
	{Expired, http.StatusUnauthorized, "invalid_token", "the token has expired"},
	{Revoked, http.StatusUnauthorized, "invalid_token", "the token was revoked"},
	{Forbidden, http.StatusForbidden, "insufficient_scope", "he who asks may not do this"},
	{Unavailable, http.StatusServiceUnavailable, "", "who asks cannot be told while the store is away"},
}

// Codes are all codes, in the order of the docs.
func Codes() []Code {
	all := make([]Code, len(codes))
	for i := range codes {
		all[i] = codes[i].code
	}
	return all
}

func (c Code) index() int {
	for i := range codes {
		if codes[i].code == c {
			return i
		}
	}
	panic("auth: no row for the code " + string(c))
}

// Refusal is why a request was not let in, or something not allowed. It shows nothing of what the request came with.
type Refusal struct {
	Code Code
	// Detail says more, and what to do; it may be empty.
	Detail string
}

func refuse(c Code, detail string) *Refusal { return &Refusal{c, detail} }

func (r *Refusal) Error() string {
	if r.Detail == "" {
		return r.Title()
	}
	return r.Title() + ": " + r.Detail
}

// Title says what it is, the same for every refusal of its code.
func (r *Refusal) Title() string { return codes[r.Code.index()].title }

// Status is that of HTTP.
func (r *Refusal) Status() int { return codes[r.Code.index()].status }

// Challenge is what WWW-Authenticate says of it (RFC 6750); empty where it says nothing.
func (r *Refusal) Challenge() string {
	row := codes[r.Code.index()]
	switch {
	case row.status == http.StatusServiceUnavailable:
		return ""
	case row.bearer == "":
		return `Bearer realm="penstock"`
	}
	return `Bearer realm="penstock", error="` + row.bearer + `", error_description="` + row.title + `"`
}
