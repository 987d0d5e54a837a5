package usage

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// read reads an answer in parts of random sizes.
func read(t *testing.T, s Setting, h http.Header, body string, whole bool) (map[string]int64, map[string]Fault) {
	t.Helper()
	p, err := s.Plan("actual")
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int64{}
	for name := range s {
		if name != "images" {
			counted[name] = 1
		}
	}
	r := p.Read(h, counted)
	for len(body) > 0 {
		n := 1 + rand.IntN(min(len(body), 20))
		if written, err := r.Write([]byte(body[:n])); written != n || err != nil {
			t.Fatal(written, err)
		}
		body = body[n:]
	}
	return r.End(whole)
}

const total = "/usage/total_tokens"

func TestBodies(t *testing.T) {
	deep, end := strings.Repeat("[", 255), strings.Repeat("]", 255) // the most levels
	for name, c := range map[string]struct {
		pointers []string // by default total
		body     string
		want     int64
		fault    Fault
	}{
		"openai":              {nil, `{"id": "x", "usage": {"prompt": 7, "total_tokens": 1432}, "choices": []}`, 1432, ""},
		"zero":                {nil, `{"usage":{"total_tokens":0}}`, 0, ""},
		"the most":            {nil, `{"usage":{"total_tokens":1000000000}}`, 1e9, ""},
		"one more":            {nil, `{"usage":{"total_tokens":1000000001}}`, 0, Invalid},
		"far more":            {nil, `{"usage":{"total_tokens":` + strings.Repeat("9", 400) + `}}`, 0, Invalid},
		"10^18":               {nil, `{"usage":{"total_tokens":1000000000000000000}}`, 0, Invalid},
		"1e99":                {nil, `{"usage":{"total_tokens":1e99}}`, 0, Invalid},
		"negative":            {nil, `{"usage":{"total_tokens":-1}}`, 0, Invalid},
		"fraction":            {nil, `{"usage":{"total_tokens":1.5}}`, 0, Invalid},
		"string":              {nil, `{"usage":{"total_tokens":"12"}}`, 0, Invalid},
		"true":                {nil, `{"usage":{"total_tokens":true}}`, 0, Invalid},
		"object":              {nil, `{"usage":{"total_tokens":{"a":1}}}`, 0, Invalid},
		"list":                {nil, `{"usage":{"total_tokens":[1]}}`, 0, Invalid},
		"NaN":                 {nil, `{"usage":{"total_tokens":NaN}}`, 0, NotJSON},
		"null":                {nil, `{"usage":{"total_tokens":null}}`, 0, Missing},
		"null above":          {nil, `{"usage":null}`, 0, Missing},
		"number above":        {nil, `{"usage":5}`, 0, Missing},
		"missing":             {nil, `{"usage":{}, "total_tokens":5}`, 0, Missing},
		"elsewhere":           {nil, `{"x":{"usage":{"total_tokens":5}},"usage":{"x":{"total_tokens":6}}}`, 0, Missing},
		"in a string":         {nil, `{"x":"{\"usage\":{\"total_tokens\":5}}"}`, 0, Missing},
		"twice":               {nil, `{"usage":{"total_tokens":5,"total_tokens":6}}`, 0, Repeated},
		"twice above":         {nil, `{"usage":{"total_tokens":5},"usage":{"total_tokens":5}}`, 0, Repeated},
		"escaped":             {nil, `{"\u0075sage":{"total\u005ftokens":5}}`, 5, ""},
		"empty":               {nil, "", 0, Missing},
		"white space":         {nil, " \r\n\t", 0, Missing},
		"half":                {nil, `{"usage":{"total_tokens":5}`, 0, NotJSON},
		"more":                {nil, `{"usage":{"total_tokens":5}} {}`, 0, NotJSON},
		"white space behind":  {nil, `{"usage":{"total_tokens":5}}` + " \n", 5, ""},
		"HTML":                {nil, "<html>", 0, NotJSON},
		"comma":               {nil, `{"usage":{"total_tokens":5,}}`, 0, NotJSON},
		"a list":              {[]string{"/0/n"}, `[{"n":5}]`, 5, ""},
		"a list's 12th":       {[]string{"/11"}, `[0,1,2,3,4,5,6,7,8,9,10,11,12]`, 11, ""},
		"an index with zero":  {[]string{"/01"}, `[0,1]`, 0, Missing},
		"an index as a name":  {[]string{"/1"}, `{"1":7}`, 7, ""},
		"escapes of pointers": {[]string{"/a~1b/~0c"}, `{"a/b":{"~c":3}}`, 3, ""},
		"the empty name":      {[]string{"/"}, `{"":3}`, 3, ""},
		"the first that is there": {
			[]string{"/usage/input_tokens", "/message/usage/input_tokens"}, `{"message":{"usage":{"input_tokens":9}}}`, 9, "",
		},
		"the first of two":  {[]string{"/a", "/b"}, `{"b":1,"a":2}`, 2, ""},
		"deep":              {nil, `{"x":` + deep + end + `,"usage":{"total_tokens":5}}`, 5, ""},
		"too deep":          {nil, `{"x":[` + deep + end + `],"usage":{"total_tokens":5}}`, 0, NotJSON},
		"long":              {nil, `{"x":"` + strings.Repeat("data: ", 1<<16) + `","usage":{"total_tokens":5}}`, 5, ""},
		"a long name":       {nil, `{"` + strings.Repeat("x", 1<<16) + `":1,"usage":{"total_tokens":5}}`, 5, ""},
		"not UTF-8, behind": {nil, "{\"x\":\"\xff\",\"usage\":{\"total_tokens\":5}}", 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.pointers == nil {
				c.pointers = []string{total}
			}
			for range 5 {
				actual, faults := read(t, Setting{"tokens": {Pointer: c.pointers}}, nil, c.body, true)
				if n, ok := actual["tokens"]; n != c.want || ok != (c.fault == "") || faults["tokens"] != c.fault {
					t.Fatalf("%v, %v; want %d, %q", actual, faults, c.want, c.fault)
				}
			}
			_, faults := read(t, Setting{"tokens": {Pointer: c.pointers}}, nil, c.body, false)
			if f := faults["tokens"]; f != Cut && (f != NotJSON || c.fault != NotJSON) {
				t.Errorf("a body that broke off: %v", faults)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	stream := http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
	chunk := `data: {"usage": null}` + "\n\n"
	last := `data: {"usage": {"total_tokens": 42}}` + "\n\n"
	for name, c := range map[string]struct {
		body  string
		want  int64
		fault Fault
	}{
		"openai":          {chunk + chunk + last + "data: [DONE]\n\n", 42, ""},
		"without usage":   {chunk + chunk + "data: [DONE]\n\n", 0, Missing},
		"empty":           {"", 0, Missing},
		"the last one":    {`data: {"usage":{"total_tokens":1}}` + "\n\n" + last + chunk, 42, ""},
		"CR LF":           {strings.ReplaceAll(chunk+last+"data: [DONE]\n\n", "\n", "\r\n"), 42, ""},
		"CR":              {strings.ReplaceAll(chunk+last+"data: [DONE]\n\n", "\n", "\r"), 42, ""},
		"without a space": {strings.ReplaceAll(last, "data: ", "data:"), 42, ""},
		"several lines": {
			"event: x\ndata: {\"usage\":\nid: 7\ndata: {\"total_tokens\":\n: comment\ndata: 42}}\n\n", 42, "",
		},
		"joined by a line":  {"data: {\"usage\":{\"total_tokens\":4\ndata: 2}}\n\n", 0, Missing},
		"other fields":      {"dat: {\"usage\":{\"total_tokens\":1}}\ndatas: 5\nmetadata: 6\n" + last, 42, ""},
		"no line behind":    {strings.TrimSpace(last), 42, ""},
		"not JSON":          {"data: hello\n\n" + last + "data: {\"usage\"\n\n", 42, ""},
		"the last is a lie": {last + `data: {"usage":{"total_tokens":-1}}` + "\n\n", 0, Invalid},
		"the JSON of no stream": {
			`{"usage":{"total_tokens":5}}`, 0, Missing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				actual, faults := read(t, Setting{"tokens": {Pointer: Pointers{total}}}, stream, c.body, true)
				if n, ok := actual["tokens"]; n != c.want || ok != (c.fault == "") || faults["tokens"] != c.fault {
					t.Fatalf("%v, %v; want %d, %q", actual, faults, c.want, c.fault)
				}
			}
			_, faults := read(t, Setting{"tokens": {Pointer: Pointers{total}}}, stream, c.body, false)
			if faults["tokens"] != Cut {
				t.Errorf("a stream that broke off: %v", faults)
			}
		})
	}
}

// Anthropic states input and output in different events, and both in an answer that is not streamed.
func TestTwoUnits(t *testing.T) {
	s := Setting{
		"input_tokens":  {Pointer: Pointers{"/usage/input_tokens", "/message/usage/input_tokens"}},
		"output_tokens": {Pointer: Pointers{"/usage/output_tokens"}},
		"images":        {Header: "x-images"},
		"calls":         {Header: "x-calls"},
	}
	for kind, body := range map[string]string{
		"application/json": `{"usage":{"input_tokens":12,"output_tokens":345}}`,
		"text/event-stream": `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":12,"output_tokens":1}}}

event: message_delta
data: {"type":"message_delta","usage":{"output_tokens":200}}

data: {"type":"message_delta","usage":{"output_tokens":345}}

`,
	} {
		h := http.Header{"Content-Type": {kind}, "X-Images": {"2"}, "X-Calls": {" 3 "}}
		actual, faults := read(t, s, h, body, true)
		if !maps.Equal(actual, map[string]int64{"input_tokens": 12, "output_tokens": 345, "calls": 3}) ||
			!maps.Equal(faults, map[string]Fault{"images": Uncounted}) {
			t.Errorf("%s: %v, %v", kind, actual, faults)
		}
	}
}

func TestHeaders(t *testing.T) {
	for value, want := range map[string]Fault{
		"0": "", "1000000000": "", " 17": "", "": Invalid, "-1": Invalid, "1e99": Invalid, "NaN": Invalid, "1.0": Invalid,
		"+5": Invalid, "5, 6": Invalid, "1000000001": Invalid, "1_000": Invalid, "many": Invalid,
		"99999999999999999999999999": Invalid, "0x10": Invalid,
	} {
		h := http.Header{"X-Tokens-Used": {value}}
		actual, faults := read(t, Setting{"tokens": {Header: "x-tokens-used"}}, h, "", false)
		if _, ok := actual["tokens"]; ok != (want == "") || faults["tokens"] != want {
			t.Errorf("%q: %v, %v; want %q", value, actual, faults, want)
		}
	}
	for want, h := range map[Fault]http.Header{
		Missing: {"X-Other": {"5"}}, Repeated: {"X-Tokens-Used": {"5", "5"}},
	} {
		if _, faults := read(t, Setting{"tokens": {Header: "x-tokens-used"}}, h, "", true); faults["tokens"] != want {
			t.Errorf("%v: %v", h, faults)
		}
	}
	h := http.Header{"Content-Encoding": {"gzip"}}
	if _, faults := read(t, Setting{"tokens": {Pointer: Pointers{total}}}, h, "{}", true); faults["tokens"] != Encoded {
		t.Error(faults)
	}
}

// What is read so far decides whether the rest can matter.
func TestWantsMore(t *testing.T) {
	for _, c := range []struct {
		name, kind, coding, body string
		want                     bool
	}{
		{"nothing yet", "", "", "", true},
		{"a part", "", "", `{"usage":{"total_tokens":5},`, true},
		{"all, unless it is followed by something", "", "", `{"usage":{"total_tokens":5}}`, true},
		{"not JSON", "application/json", "", "<html>", false},
		{"events", "text/event-stream", "", "<html>", true},
		{"compressed", "", "gzip", "", false},
	} {
		p, err := Setting{"tokens": {Pointer: Pointers{total}}}.Plan("actual")
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{"Content-Type": {c.kind}, "Content-Encoding": {c.coding}}
		r := p.Read(h, map[string]int64{"tokens": 1})
		_, _ = r.Write([]byte(c.body))
		if got := r.WantsMore(); got != c.want || !r.Pending() {
			t.Errorf("%s: %v, pending %v", c.name, got, r.Pending())
		}
		if r := p.Read(h, nil); r.WantsMore() {
			t.Errorf("%s: nothing counts the unit", c.name)
		}
	}
}

func TestWithoutPlan(t *testing.T) {
	p, err := Setting{}.Plan("actual")
	r := p.Read(nil, nil)
	actual, faults := r.End(true)
	if p != nil || err != nil || r.Pending() || r.WantsMore() || actual != nil || faults != nil {
		t.Error(p, err, actual, faults)
	}
}

// Events take no memory with their number or length, and no stream makes a Reader panic.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {\"a\":1}\n\ndata: {\"a\":2}\r\n\r\n"), uint8(2), true)
	f.Add([]byte("event: x\rdata:{\"a\":\rdata: 3}\r\r"), uint8(1), false)
	plan, err := Setting{"tokens": {Pointer: Pointers{"/a"}}}.Plan("")
	if err != nil {
		f.Fatal(err)
	}
	h := http.Header{"Content-Type": {"text/event-stream"}}
	f.Fuzz(func(t *testing.T, text []byte, part uint8, whole bool) {
		end := func(part int) (map[string]int64, map[string]Fault) {
			r := plan.Read(h, map[string]int64{"tokens": 1})
			for rest := text; len(rest) > 0; {
				n := min(len(rest), part)
				_, _ = r.Write(rest[:n])
				rest = rest[n:]
			}
			return r.End(whole)
		}
		actual, faults := end(max(1, int(part)))
		again, faultsAgain := end(len(text) + 1)
		if len(actual)+len(faults) != 1 || !maps.Equal(actual, again) || !maps.Equal(faults, faultsAgain) {
			t.Errorf("%v, %v; in one part %v, %v", actual, faults, again, faultsAgain)
		}
	})
}
