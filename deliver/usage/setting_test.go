package usage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/setting"
)

func TestPlan(t *testing.T) {
	for text, want := range map[string]string{
		`{"tokens": {"pointer": "/usage/total_tokens"}}`:          "",
		`{"tokens": {"pointer": ["/a", "/b/0", "/c~1d", "/~0"]}}`: "",
		`{"tokens": {"header": "x-tokens-used"}}`:                 "",
		`{"tokens": {}}`:                                                   "actual.tokens: needs a pointer",
		`{"tokens": {"pointer": []}}`:                                      "needs a pointer",
		`{"tokens": {"pointer": "/a", "header": "x"}}`:                     "has a pointer and a header",
		`{"tokens": {"pointer": ""}}`:                                      "actual.tokens.pointer: is not a JSON pointer",
		`{"tokens": {"pointer": "usage.total"}}`:                           `"usage.total": is not a JSON pointer: it begins`,
		`{"tokens": {"pointer": "/a~"}}`:                                   "~ is written ~0",
		`{"tokens": {"pointer": "/a~2"}}`:                                  "~ is written ~0",
		`{"tokens": {"pointer": ["/a", "/b", "/c", "/d", "/e"]}}`:          "has 5 pointers, the limit is 4",
		`{"tokens": {"pointer": "` + strings.Repeat("/a", 17) + `"}}`:      "deeper than 16 levels",
		`{"tokens": {"pointer": "/` + strings.Repeat("a", 256) + `"}}`:     "has 257 bytes, the limit is 256",
		`{"tokens": {"header": "x tokens"}}`:                               `tokens.header: "x tokens": is not the name`,
		`{"tokens": {"header": "` + strings.Repeat("x", 129) + `"}}`:       "is not the name of a header",
		`{"Tokens": {"header": "x"}}`:                                      `"Tokens": is not a unit`,
		`{"": {"header": "x"}}`:                                            "is not a unit",
		`{"jobs": {"header": "x"}}`:                                        "actual.jobs: is not read from answers",
		`{"a":{},"b":{},"c":{},"d":{},"e":{},"f":{},"g":{},"h":{},"i":{}}`: "has 9 units, the limit is 8",
	} {
		var s Setting
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		p, err := s.Plan("actual")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || (p == nil) != (err != nil) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// Settings in another form are refused with the field and what it must be.
func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"tokens": {"pointer": 5}}`:   `actual.tokens.pointer: must be a JSON pointer such as "/usage/total_tokens"`,
		`{"tokens": {"pointer": [5]}}`: "actual.tokens.pointer: must be a JSON pointer",
		`{"tokens": "/usage"}`:         "actual.tokens: must be an object",
		`{"tokens": {"header": 5}}`:    "actual.tokens.header: must be a string",
		`{"tokens": {"from": "/a"}}`:   "actual.tokens.from: is not a field; fields are header, pointer",
		`["tokens"]`:                   "actual: must be an object",
	} {
		var s Setting
		if err := setting.Decode([]byte(text), "actual", &s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// As many units and pointers as a setting may have are all read.
func TestTheMost(t *testing.T) {
	s, body := Setting{}, "{"
	for u := range 8 {
		var list Pointers
		for p := range MaxPointers {
			list = append(list, fmt.Sprintf("/%d/%d", u, p))
		}
		s[fmt.Sprintf("u%d", u)] = Source{Pointer: list}
		body += fmt.Sprintf(`"%d":{"3":%d},`, u, u)
	}
	actual, faults := read(t, s, nil, body+`"x":0}`, true)
	if len(actual) != 8 || len(faults) != 0 || actual["u7"] != 7 {
		t.Error(actual, faults)
	}
}
