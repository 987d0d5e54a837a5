package replay

import (
	"bytes"
	stdcsv "encoding/csv"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// plainCombined matches lines of the combined format; the reader accepts more lines than the pattern.
var plainCombined = regexp.MustCompile(
	`^([^ ]+) [^ \[]+ ([^\[]+) \[([^\]]*)\] "([^"\\]*)" ([0-9]{3}) ([^ "]+) "([^"\\]*)" "([^"\\]*)"$`,
)

// FuzzCombined compares the reader of combined lines with a pattern. Lines that both accept have the same fields, and
// the reader rejects a line of the pattern only for its time.
func FuzzCombined(f *testing.F) {
	for _, s := range []string{
		`::1 - Jane Doe [02/Oct/2026:12:00:00 +0000] "POST /a?x=[1] HTTP/2" 404 - "https://e.example/" "M"`,
		`a - - [10/Oct/2000:13:55:36 -0700] "GET /a\"b HTTP/1.0" 200 2326`,
		`a - - [31/Feb/2026:12:00:00 +0000] "-" 400 0 "-" "-"`, `a - - [31/Dec/1969:23:59:60 +2459] "" 400 0 "-" "\\"`,
		`a  [x] [1] "q" 200`,
	} {
		f.Add([]byte(s))
	}
	fields := []string{
		"remote_addr", "user", "status", "bytes", "header.Referer", "header.User-Agent", "method", "path", "query",
		"protocol",
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c := &combined{clock: &clock{zone: time.UTC}}
		for _, field := range fields {
			if _, err := c.slot(field); err != nil {
				t.Fatal(err)
			}
		}
		at, values, err := c.parse(line)
		if err == nil && (at < 0 || at > lastInstant) {
			t.Errorf("the instant %d", at)
		}
		m := plainCombined.FindSubmatch(line)
		if m == nil {
			return
		}
		if err != nil {
			if _, ok := splitCombined(line); !ok {
				t.Fatal(err)
			}
			return // for its time
		}
		for i, want := range [][]byte{m[1], m[2], m[5], m[6], m[7], m[8]} {
			if string(want) == "-" {
				want = nil
			}
			if string(values[i]) != string(want) {
				t.Errorf("%s is %q, want %q", fields[i], values[i], want)
			}
		}
	})
}

// FuzzNDJSON compares the reader of NDJSON with the standard library's.
func FuzzNDJSON(f *testing.F) {
	for _, s := range []string{
		`{"time":"2026-10-02T12:00:00Z","a":{"b":["x",{"c":1.50}]}}`, `{"time":1,"a":1,"a":2}`,
		`{"time":1,"a":{"b":1},"a":2}`, `{"time":1,"a":1,"a":null}`,
		`{"time":1,"a":{"b":1},"a":{"b":{}}}`, `{"time":1,"\u0061":"\ud83d\ude00"}`, `{"time":1}{}`, `{"time":[1]}`, `[]`,
		` {"time" : 1 , "a~/" : true } `,
	} {
		f.Add([]byte(s))
	}
	fields := []string{"/a", "/a/b", "/a/b/0", "/a/b/1/c", "/a~0~1", "/"}
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := newClock("", nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := newNDJSON(c, "/time", line)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range fields {
			if _, err := n.slot(field); err != nil {
				t.Fatal(err)
			}
		}
		var object map[string]any
		in := json.NewDecoder(bytes.NewReader(line))
		in.UseNumber()
		wantErr := in.Decode(&object)
		good := wantErr == nil && object != nil && len(bytes.Trim(line[in.InputOffset():], " \t\r\n")) == 0
		err = n.read(line)
		if err == nil != good && utf8.Valid(line) && !strings.Contains(string(line), `\u`) &&
			strings.Count(string(line), "{")+strings.Count(string(line), "[") < 1000 {
			t.Fatalf("%v, but the standard library says %v", err, wantErr)
		}
		if err != nil || !good {
			return
		}
		for i, field := range append([]string{"/time"}, fields...) {
			want := member(object, field)
			if got := string(n.values[i]); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		if at, _, err := n.parse(line); err == nil && (at < 0 || at > lastInstant) {
			t.Errorf("the instant %d", at)
		}
	})
}

// member returns the value at a JSON pointer as text, or nothing for an object or array.
func member(v any, pointer string) string {
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch in := v.(type) {
		case map[string]any:
			v = in[token]
		case []any:
			if i, err := strconv.Atoi(token); err != nil || i < 0 || i >= len(in) {
				return ""
			} else {
				v = in[i]
			}
		default:
			return ""
		}
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// FuzzCSV compares the reader of CSV with the standard library's, which accepts values over several lines and is
// stricter about quotes.
func FuzzCSV(f *testing.F) {
	for _, s := range [][2]string{
		{"time,a,b", `1,"x""y",z`},
		{"time;a;b", `1;"";"""";`},
		{"time\ta\tb", "1\t\t"},
		{`"time",a`, `1,"x"y`},
		{"time,a", `1,"x`},
		{"time,a", `1, "x"`},
		{"time,a,a", `"1"`},
	} {
		f.Add([]byte(s[0]), []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, header, line []byte) {
		if bytes.ContainsAny(header, "\r\n") || bytes.ContainsAny(line, "\r\n") {
			return // the reader of lines removes them
		}
		c, err := newClock("", nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := newCSV(c, "", header)
		if err != nil {
			return
		}
		if r.time < 0 || r.time >= len(r.columns) {
			t.Fatalf("the time is column %d of %q", r.time, r.columns)
		}
		std := stdcsv.NewReader(bytes.NewReader(line))
		std.Comma, std.FieldsPerRecord = rune(r.comma), -1
		want, stdErr := std.Read()
		_, err = r.split(line, len(line)+1)
		if stdErr == nil && err != nil {
			t.Fatalf("%v, but the standard library reads %q", err, want)
		}
		if stdErr == nil && err == nil {
			var got []string
			for _, v := range r.values {
				got = append(got, string(v))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
		}
		if at, _, err := r.parse(line); err == nil && (at < 0 || at > lastInstant || len(r.values) != len(r.columns)) {
			t.Errorf("the instant %d, %d values", at, len(r.values))
		}
	})
}

// FuzzRun replays anything. No log makes it fail, every line is counted once, and every request is decided.
func FuzzRun(f *testing.F) {
	f.Add([]byte(line("a", "12:00:00")+"x\n"+line("b", "11:59:59")), "", false)
	f.Add([]byte("time,k\n1,a\n1.5,b\n\n2e9,c\n"), "", true)
	f.Add([]byte(`{"time":253402214400,"k":1}`+"\n"+`{"time":0}`), "", true)
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), "ndjson", false)
	f.Add([]byte("\ufefftime;k\n1;a"), "csv", false)
	all, err := ReadRules("meter rate=1/s burst=2", nil)
	if err != nil {
		f.Fatal(err)
	}
	one := ""
	more, err := ReadRules("sliding_counter limit=3 period=1m", &one)
	if err != nil {
		f.Fatal(err)
	}
	all = append(all, more...)
	q, err := ReadQueue("rate=1/s capacity=3")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, log []byte, format string, spread bool) {
		r, err := Run(t.Context(), Options{
			Logs: []Log{{"log", bytes.NewReader(log)}}, Rules: all, Queues: []Queue{q}, Format: format, Spread: spread,
		})
		if err != nil {
			return
		}
		if r.Requests < 1 || len(log) > 1 && log[0] != 0x1f &&
			r.Requests+r.Broken > int64(bytes.Count(log, []byte{'\n'}))+1 || r.To.Before(r.From) {
			t.Fatalf("%d requests and %d broken lines from %v to %v", r.Requests, r.Broken, r.From, r.To)
		}
		var steps, allowed, refused int64
		for _, s := range r.Timeline.Steps {
			steps += s.Requests
			allowed += s.Rules[0].Allowed
			refused += s.Rules[0].Refused
		}
		if first := r.Rules[0]; steps != r.Requests || first.Allowed != allowed || first.Refused != refused ||
			first.Allowed+first.Refused+first.WithoutKey != r.Requests {
			t.Fatalf("%d requests, %d in the timeline; %+v, and %d and %d there", r.Requests, steps, first, allowed, refused)
		}
		if o := r.Queues[0]; o.Accepted+o.Refused != r.Requests || o.Deepest > 3 {
			t.Fatalf("%+v", o)
		}
		if len(r.Timeline.Steps) > maxSteps {
			t.Fatalf("%d steps", len(r.Timeline.Steps))
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
