package secrets

import (
	stdjson "encoding/json"
	"errors"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// Hidden is shown in place of a secret.
const Hidden = "***"

// secretNames are parts of names, in any case, whose values are secrets: Authorization, Cookie, X-Api-Key.
var secretNames = []string{
	"auth", "bearer", "cookie", "credential", "jwt", "key", "pass", "pwd", "secret", "session", "signature", "token",
}

// IsSensitive reports whether the value of a header or field with this name is a secret.
func IsSensitive(name string) bool {
	name = strings.ToLower(name)
	for _, part := range secretNames {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// Mask returns a deliver setting that may be shown. Hidden replaces every value whose name is sensitive (IsSensitive),
// and in every URL the user and password, the values of the query, and the fragment. It depends only on names, so it
// covers a program's own kinds of targets, too. References to secrets are shown, also behind an authorization scheme,
// as in an Authorization header, or as a password behind a user.
func Mask(raw stdjson.RawMessage) stdjson.RawMessage {
	masked, err := rewrite(raw, func(p place, secret jsontext.Value) (jsontext.Value, error) {
		if secret.Kind() == '"' {
			text := unquote(secret)
			if _, password, ok := strings.Cut(text, ":"); ok && p.part == partUser && !strings.HasPrefix(text, "$") {
				text = password
			}
			if refers(text) {
				return secret, nil
			}
		}
		return quote(Hidden), nil
	})
	if err != nil {
		return stdjson.RawMessage(quote(Hidden)) // not JSON: it may contain anything
	}
	return masked
}

// MaskHeaders returns headers with Hidden in place of the values of sensitive names.
func MaskHeaders(headers map[string]string) map[string]string {
	var masked map[string]string
	for name := range headers {
		if IsSensitive(name) {
			if masked == nil {
				masked = maps.Clone(headers)
			}
			masked[name] = Hidden
		}
	}
	if masked == nil {
		return headers
	}
	return masked
}

// open matches the beginning of a reference, with the name of an authorization scheme or without.
var open = regexp.MustCompile(`^(?i:(bearer|basic|token|apikey|digest) )?\$\{`)

// refers reports whether a text consists only of references to secrets.
func refers(text string) bool {
	if !open.MatchString(text) {
		return false
	}
	_, references, _ := strings.Cut(text, "${")
	for rest := "${" + references; rest != ""; {
		r, behind, _ := strings.Cut(rest, "}")
		if !IsReference(r + "}") {
			return false
		}
		rest = behind
	}
	return true
}

// MaskURL masks a URL as Mask masks the URLs in a setting.
func MaskURL(url string) string {
	// The only possible error is the callback's.
	masked, _ := rewriteURL(url, place{}, func(place, string) (string, error) { return Hidden, nil })
	return masked
}

// InURL returns the secrets in a URL, as they are written there.
func InURL(url string) (found []string) {
	_, _ = rewriteURL(url, place{}, func(_ place, secret string) (string, error) {
		found = append(found, secret)
		return secret, nil
	})
	return found
}

// Masked reports whether Hidden stands for a secret somewhere in a deliver setting.
func Masked(raw stdjson.RawMessage) bool {
	found := false
	_, err := rewrite(raw, func(_ place, secret jsontext.Value) (jsontext.Value, error) {
		found = found || isHidden(secret)
		return secret, nil
	})
	return err == nil && found
}

// Unmask returns a deliver setting in which every Hidden that stands for a secret is replaced by the secret that stored
// has in the same place: the same field or header, or the same value of a query. So a masked setting can be edited and
// put back. Hidden without a stored secret is an error, and never taken for the secret itself. All errors are
// *invalid.Error.
func Unmask(raw, stored stdjson.RawMessage) (stdjson.RawMessage, error) {
	kept, folded := map[place]jsontext.Value{}, map[place]jsontext.Value{}
	_, err := rewrite(stored, func(p place, secret jsontext.Value) (jsontext.Value, error) {
		kept[p] = secret.Clone()
		folded[p.fold()] = kept[p]
		return secret, nil
	})
	if err != nil {
		return nil, setting.Error(
			"deliver", "", "is not valid JSON in the store, so no secret of it can be kept; give the whole setting",
		)
	}
	unmasked, err := rewrite(raw, func(p place, secret jsontext.Value) (jsontext.Value, error) {
		if !isHidden(secret) {
			return secret, nil
		}
		if own, ok := kept[p]; ok {
			return own, nil
		}
		if own, ok := folded[p.fold()]; ok { // names of headers ignore case
			return own, nil
		}
		return nil, p.nothing()
	})
	var refused *invalid.Error
	if err != nil && !errors.As(err, &refused) {
		return nil, setting.Explain(err, "deliver", nil)
	}
	return unmasked, err
}

// place is the place of a secret: a value, or a part of a URL.
type place struct {
	value jsontext.Pointer
	part  string // of a URL; empty for the whole value
	name  string // of the value in the query
	nth   int    // among the values of that name
}

func (p place) fold() place {
	p.value = jsontext.Pointer(strings.ToLower(string(p.value)))
	return p
}

// nothing returns the error of a Hidden for which no secret is stored.
func (p place) nothing() error {
	is := "is "
	switch {
	case p.part == partQuery && p.nth > 1:
		is = "has, as the query's " + clip.Quote(p.name, 40) + " number " + strconv.Itoa(p.nth) + ", "
	case p.part == partQuery:
		is = "has, as the query's " + clip.Quote(p.name, 40) + ", "
	case p.part != "":
		is = "has, as its " + p.part + ", "
	}
	return setting.Error(
		setting.Path("deliver", p.value), "",
		is+Hidden+", which keeps a stored secret, but none is stored there; give the secret itself",
	)
}

func isHidden(v jsontext.Value) bool { return v.Kind() == '"' && unquote(v) == Hidden }

// quote and unquote ignore errors, which only mean that invalid UTF-8 was replaced.

func quote(s string) jsontext.Value {
	v, _ := jsontext.AppendQuote(nil, s)
	return v
}

func unquote(v jsontext.Value) string {
	s, _ := jsontext.AppendUnquote(nil, v)
	return string(s)
}
