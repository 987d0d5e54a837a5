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

// object converts a form to a JSON object and leaves out empty fields. A dot in a name nests: "limits.rate" is rate in
// limits. A suffix after a colon names the type of the value; see kinds. The result is nil if all fields are empty.
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
			return nil, fmt.Errorf("%.80q is not a field name", name)
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

// maxNested is the maximum number of dot-separated parts in a field name.
const maxNested = 8

// kinds parse the text of a field, by the suffix of its name.
var kinds = map[string]func(text string) (any, error){
	"":       func(text string) (any, error) { return text, nil },
	"json":   jsonOf,
	"list":   func(text string) (any, error) { return words(text), nil },
	"grants": grantsOf,
}

func jsonOf(text string) (any, error) {
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%.80q is not a JSON value", text)
	}
	return json.RawMessage(text), nil
}

// words splits text at spaces, commas and line ends.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \n\r\t", r) })
}

// grantsOf parses grants as penstock token create --grant does: ROLE or ROLE:PREFIX.
func grantsOf(text string) (any, error) {
	var all []auth.Grant
	for _, word := range words(text) {
		role, prefix, _ := strings.Cut(word, ":")
		all = append(all, auth.Grant{Role: auth.Role(role), Prefix: prefix})
	}
	return all, nil
}

// grantWords formats grants for grantsOf.
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

// problemIn returns the problem in an error response.
func problemIn(a *answer) error {
	p := &client.Problem{}
	_ = json.Unmarshal(a.body.Bytes(), p) // an unreadable body leaves only the status
	p.Status = a.status
	return p
}

func readCloser(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// wantsJSON reports whether a script sent the form and will show the answer itself.
func wantsJSON(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Accept"), "application/json")
}
