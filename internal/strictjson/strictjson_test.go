package strictjson

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// The path of a walk equals the decoder's own pointer at each name and value.
func TestPlace(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"a":1}`, `{"a":{"b":[1,{"c":[[],[2,"x"],{}]},3],"d":{}},"e":[],"f":[{"g":true},{"g":false}],"h":"i"}`,
		`{"limits":[{"rate":"1/s"},{"rate":"2/s","burst":0}],"deliver":{"http":{"url":"x"}},"z":0}`,
	} {
		in := jsontext.NewDecoder(bytes.NewBufferString(text))
		var at place
		for {
			token, err := in.ReadToken()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			check := func() {
				t.Helper()
				if want := dotted(in.StackPointer()); string(at.path) != want {
					t.Errorf("%s: at %q, want %q", text, at.path, want)
				}
			}
			switch kind := token.Kind(); {
			case at.isName(kind):
				at.name(token.String())
				check()
			case kind == '}' || kind == ']':
				if at.leave(); len(at.within) > 0 {
					at.value()
				}
			case kind == '{' || kind == '[':
				at.enter(kind == '[')
			default:
				check()
				at.value()
			}
		}
	}
}
