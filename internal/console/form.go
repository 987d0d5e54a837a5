package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/penstock/penstock/internal/client"
)

// object is the JSON object of a form: a text for each field that is filled in. Behind a colon stands another type:
// "limit:json" is JSON as it is, of a number or a list, say. Of a form without fields it is nil.
func object(form url.Values) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	for name, values := range form {
		if strings.HasPrefix(name, "_") || len(values) == 0 || values[0] == "" {
			continue
		}
		name, kind, _ := strings.Cut(name, ":")
		text := []byte(values[0])
		switch kind {
		case "json":
			if !json.Valid(text) {
				return nil, fmt.Errorf("%s: %.80q is no number, nor anything else in JSON", name, values[0])
			}
		default:
			var err error
			if text, err = json.Marshal(values[0]); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		fields[name] = text
	}
	if len(fields) == 0 {
		return nil, nil
	}
	return json.Marshal(fields)
}

func readCloser(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// problemIn is the refusal that an answer is.
func problemIn(a *answer) error {
	p := &client.Problem{}
	_ = json.Unmarshal(a.body.Bytes(), p) // what cannot be read has its status alone
	p.Status = a.status
	return p
}
