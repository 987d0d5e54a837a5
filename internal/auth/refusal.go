package auth

import "net/http"

// Code is why authentication or authorization failed. Programs rely on codes, so they are never renamed.
type Code string

// Codes of refusals.
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

// codes has the HTTP status, the error of RFC 6750 and the title of each code.
var codes = []struct {
	code   Code
	status int
	bearer string
	title  string
}{
	{Missing, http.StatusUnauthorized, "", "authentication is required"},
	{Malformed, http.StatusBadRequest, "invalid_request", "the Authorization header is invalid"},
	{InURL, http.StatusBadRequest, "invalid_request", "tokens are not allowed in URLs"},
	{Mistyped, http.StatusUnauthorized, "invalid_token", "the token is mistyped"},
	{Unknown, http.StatusUnauthorized, "invalid_token", "the credentials are unknown"},
	{Expired, http.StatusUnauthorized, "invalid_token", "the credentials have expired"},
	{Revoked, http.StatusUnauthorized, "invalid_token", "the credentials were revoked"},
	{Forbidden, http.StatusForbidden, "insufficient_scope", "you lack the permission"},
	{Unavailable, http.StatusServiceUnavailable, "", "authentication is temporarily unavailable"},
}

// Codes returns all codes, in the order of the docs.
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

// Refusal is a failed authentication or authorization. It contains nothing of the request's credentials.
type Refusal struct {
	Code Code
	// Detail says more, and what to do. It may be empty.
	Detail string
}

func refuse(c Code, detail string) *Refusal { return &Refusal{c, detail} }

func (r *Refusal) Error() string {
	if r.Detail == "" {
		return r.Title()
	}
	return r.Title() + ": " + r.Detail
}

// Title returns the title of the code.
func (r *Refusal) Title() string { return codes[r.Code.index()].title }

// Status returns the HTTP status of the code.
func (r *Refusal) Status() int { return codes[r.Code.index()].status }

// Challenge returns the value of WWW-Authenticate (RFC 6750), or "".
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
