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

// Hidden is what is shown in place of a secret.
const Hidden = "***"

// secretNames are what a name has in it, in whatever case, when its value is a secret: Authorization,
// Cookie, X-Api-Key.
var secretNames = []string{
	"auth", "bearer", "cookie", "credential", "jwt", "key", "pass", "pwd", "secret", "session", "signature", "token",
}

// IsSensitive reports whether the name of a header or a field says that its value is a secret.
func IsSensitive(name string) bool {
	name = strings.ToLower(name)
	for _, part := range secretNames {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// Mask returns a deliver setting as it may be shown. Hidden stands for every value whose name says that it
// is a secret, and in every URL for user and password, the values of the query, and the fragment. It goes by
// names and not by targets, so that those of other programs are covered too. A reference to a secret is none,
// and is shown, also behind the name of a scheme, as in an Authorization header, or of the user whose password it is.
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
		return stdjson.RawMessage(quote(Hidden)) // it is not JSON: who knows what is in it
	}
	return masked
}

// MaskHeaders returns headers as they may be shown: with Hidden for those whose names say that they are secrets.
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

// open is what may stand before a reference and is no secret.
var open = regexp.MustCompile(`^(?i:(bearer|basic|token|apikey|digest) )?\$\{`)

// refers reports whether a text is nothing but references to secrets.
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

// MaskURL does for a URL alone what Mask does for those of a setting.
func MaskURL(url string) string {
	// it has no error of its own
	masked, _ := rewriteURL(url, place{}, func(place, string) (string, error) { return Hidden, nil })
	return masked
}

// InURL returns the secrets that stand in a URL, as they stand there.
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

// Unmask returns a deliver setting in which every Hidden that stands for a secret is replaced by what stored
// has in the same place: the field or header of that name, the query's value of that name. So what was shown
// can be edited and put back. Hidden where nothing is stored is an *invalid.Error, like all its errors: it
// is never taken for the secret itself.
func Unmask(raw, stored stdjson.RawMessage) (stdjson.RawMessage, error) {
	kept, folded := map[place]jsontext.Value{}, map[place]jsontext.Value{}
	_, err := rewrite(stored, func(p place, secret jsontext.Value) (jsontext.Value, error) {
		kept[p] = secret.Clone()
		folded[p.fold()] = kept[p]
		return secret, nil
	})
	if err != nil {
		return nil, setting.Error(
			"deliver", "", "is not valid JSON in the store, so nothing of it can be kept; give all of it",
		)
	}
	unmasked, err := rewrite(raw, func(p place, secret jsontext.Value) (jsontext.Value, error) {
		if !isHidden(secret) {
			return secret, nil
		}
		if own, ok := kept[p]; ok {
			return own, nil
		}
		if own, ok := folded[p.fold()]; ok { // a header's name is the same in any case
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

// place is where a secret stands: a value, or a part of one that is a URL.
type place struct {
	value jsontext.Pointer
	part  string // of a URL; empty for the whole value
	name  string // of a value of the query
	nth   int    // among those of that name
}

func (p place) fold() place {
	p.value = jsontext.Pointer(strings.ToLower(string(p.value)))
	return p
}

// nothing says that Hidden stands where there is no secret to keep.
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
		is+Hidden+", which keeps the secret that is stored there, and none is; give the secret itself",
	)
}

func isHidden(v jsontext.Value) bool { return v.Kind() == '"' && unquote(v) == Hidden }

// quote and unquote have errors only for what is not UTF-8, and then replace it.

func quote(s string) jsontext.Value {
	v, _ := jsontext.AppendQuote(nil, s)
	return v
}

func unquote(v jsontext.Value) string {
	s, _ := jsontext.AppendUnquote(nil, v)
	return string(s)
}
