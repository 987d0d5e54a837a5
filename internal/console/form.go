package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
)

// object is the JSON object of a form, with what is filled in. A dot in the name of a field is an object within:
// "limits.rate" is rate in limits. What stands behind a colon, see kinds, makes of the text another type. Of a form
// without fields it is nil.
func object(form url.Values) ([]byte, error) {
	whole := map[string]any{}
	for name, texts := range form {
		text := strings.Join(texts, " ")
		if strings.HasPrefix(name, "_") || strings.TrimSpace(text) == "" {
			continue
		}
		name, kind, _ := strings.Cut(name, ":")
		parts := strings.Split(name, ".")
		read := kinds[kind]
		if read == nil || len(parts) > maxNested {
			return nil, fmt.Errorf("%.80q is not the name of a field", name)
		}
		value, err := read(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		at := whole
		for _, part := range parts[:len(parts)-1] {
			within, is := at[part].(map[string]any)
			if !is {
				within = map[string]any{}
				at[part] = within
			}
			at = within
		}
		at[parts[len(parts)-1]] = value
	}
	if len(whole) == 0 {
		return nil, nil
	}
	return json.Marshal(whole)
}

// maxNested is how many names the longest name of a field has, with dots between.
const maxNested = 8

// kinds make a value of the text of a field.
var kinds = map[string]func(text string) (any, error){
	"":       func(text string) (any, error) { return text, nil },
	"json":   jsonOf,
	"list":   func(text string) (any, error) { return words(text), nil },
	"grants": grantsOf,
}

func jsonOf(text string) (any, error) {
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%.80q is no number, nor anything else in JSON", text)
	}
	return json.RawMessage(text), nil
}

// words are those of a text, with spaces, commas or lines between them.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \n\r\t", r) })
}

// grantsOf reads what penstock token create takes with --grant: ROLE, or ROLE:PREFIX.
func grantsOf(text string) (any, error) {
	var all []auth.Grant
	for _, word := range words(text) {
		role, prefix, _ := strings.Cut(word, ":")
		all = append(all, auth.Grant{Role: auth.Role(role), Prefix: prefix})
	}
	return all, nil
}

// grantWords are grants as grantsOf reads them.
func grantWords(all []auth.Grant) []string {
	texts := make([]string, len(all))
	for i, g := range all {
		texts[i] = string(g.Role)
		if g.Prefix != "" {
			texts[i] += ":" + g.Prefix
		}
	}
	return texts
}

// problemIn is the refusal that an answer is.
func problemIn(a *answer) error {
	p := &client.Problem{}
	_ = json.Unmarshal(a.body.Bytes(), p) // what cannot be read has its status alone
	p.Status = a.status
	return p
}

// readCloser is the body of a request.
func readCloser(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// wantsJSON reports whether a script sent a form, and shows the answer itself.
func wantsJSON(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Accept"), "application/json")
}
