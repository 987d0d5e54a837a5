package push_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/push"
)

// all reads a source to its end as "number id body" or "number !error".
func all(t *testing.T, text, format string) (lines []string, end error) {
	t.Helper()
	src, err := push.Open(strings.NewReader(text), format)
	if err != nil {
		return nil, err
	}
	return rest(src)
}

func rest(src push.Source) (lines []string, end error) {
	for {
		l, err := src.Next()
		if err != nil {
			return lines, err
		}
		if l.Err != nil {
			lines = append(lines, fmt.Sprintf("%d !%v", l.Number, l.Err))
			continue
		}
		lines = append(lines, fmt.Sprintf("%d %s %s", l.Number, l.ID, l.Body))
	}
}

func TestSource(t *testing.T) {
	hash := func(content string, n int) string { return push.LineID([]byte(content), n) }
	tests := []struct {
		name, format, text string
		want               []string
	}{
		{"with ids", push.NDJSON, "{\"id\":\"a\",\"payload\":1}\n{\"payload\":2,\"id\":\"b\"}", []string{
			`1 a {"id":"a","payload":1}`, `2 b {"payload":2,"id":"b"}`,
		}},
		{"without ids", push.NDJSON, "{\"payload\":1}\n\n {\"payload\":1}\r\n", []string{
			`1 ` + hash(`{"payload":1}`, 1) + ` {"id":"` + hash(`{"payload":1}`, 1) + `","payload":1}`,
			`3 ` + hash(`{"payload":1}`, 3) + ` {"id":"` + hash(`{"payload":1}`, 3) + `","payload":1}`,
		}},
		{"an inner id is not an id", push.NDJSON, `{"payload":{"id":"x"}}`, []string{
			`1 ` + hash(`{"payload":{"id":"x"}}`, 1) + ` {"id":"` + hash(
				`{"payload":{"id":"x"}}`, 1,
			) + `","payload":{"id":"x"}}`,
		}},
		{"an id in escapes", push.NDJSON, `{"\u0069d":"x"}`, []string{`1 x {"\u0069d":"x"}`}},
		{"an empty object", push.NDJSON, "{ }", []string{`1 ` + hash("{ }", 1) + ` {"id":"` + hash("{ }", 1) + `" }`}},
		{"bad lines among good ones", push.NDJSON, "[1]\n{\"id\":\"a\"\n{\"id\":\"b\"} {}\n{\"id\":\"c\"}\n\xff", []string{
			`1 !not a JSON object such as {"payload": ...}`, `2 !not JSON: unexpected end`,
			`3 !unexpected text after the JSON object`, `4 c {"id":"c"}`, `5 !not UTF-8`,
		}},
		{"a byte order mark", push.NDJSON, "\ufeff{\"id\":\"a\"}", []string{`1 a {"id":"a"}`}},
		{"a line too long", push.NDJSON, strings.Repeat("x", push.MaxLineBytes+1) + "\n{\"id\":\"a\"}", []string{
			fmt.Sprintf("1 !longer than %d bytes", push.MaxLineBytes), `2 a {"id":"a"}`,
		}},
		{"a last line too long", push.NDJSON, strings.Repeat("x", push.MaxLineBytes+1), []string{
			fmt.Sprintf("1 !longer than %d bytes", push.MaxLineBytes),
		}},
		{"csv with columns", push.CSV, "id,to,text\n7,a@example.com,\"<hi>\nthere\"\n8,b@example.com,x\n", []string{
			`2 7 {"id":"7","payload":{"to":"a@example.com","text":"<hi>\nthere"}}`,
			`4 8 {"id":"8","payload":{"to":"b@example.com","text":"x"}}`,
		}},
		{"csv of a spreadsheet", push.CSV, "id;price\n7;\"1,5\"\n8;2,5\n", []string{
			`2 7 {"id":"7","payload":{"price":"1,5"}}`,
			`3 8 {"id":"8","payload":{"price":"2,5"}}`,
		}},
		{"csv with payload", push.CSV, "payload,id\n\"{\"\"n\"\": 12345678901234567890}\",z\noops,y\n", []string{
			`2 z {"id":"z","payload":{"n":12345678901234567890}}`,
			`3 !column payload: not JSON: invalid character 'o' looking for beginning of value`,
		}},
		{"csv without ids", push.CSV, "to\na\na\n", []string{
			`2 ` + hash(`{"to":"a"}`, 2) + ` {"id":"` + hash(`{"to":"a"}`, 2) + `","payload":{"to":"a"}}`,
			`3 ` + hash(`{"to":"a"}`, 3) + ` {"id":"` + hash(`{"to":"a"}`, 3) + `","payload":{"to":"a"}}`,
		}},
		{"csv with a short row", push.CSV, "a,b\n1\n2,3\n", []string{
			`2 !has 1 columns, but the header row has 2`,
			`3 ` + hash(`{"a":"2","b":"3"}`, 3) + ` {"id":"` + hash(`{"a":"2","b":"3"}`, 3) + `","payload":{"a":"2","b":"3"}}`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := all(t, tt.text, tt.format)
			if !errors.Is(err, io.EOF) {
				t.Fatalf("ended with %v", err)
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestInvalidCSVHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "empty",
		"a,a\n":                `column 2 of the header row: "a"`,
		"a,\n":                 "must be unique",
		"id,payload,to\n":      "found to",
		"id\n":                 "only a column id",
		"a,\"b\n":              "header row",
		"a,b\n1,2\n3,\"x\n4,5": "quote",
	} {
		if _, err := all(t, text, push.CSV); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestCSVWithLanes(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"beside columns", "\ufeffid,domain,to\n1,a.example,x@a.example\n2,,y\n3,\"\"\"<&>\",z\n", []string{
			`2 1 {"id":"1","payload":{"to":"x@a.example"},"lane":"a.example"}`,
			`3 2 {"id":"2","payload":{"to":"y"}}`,
			`4 3 {"id":"3","payload":{"to":"z"},"lane":"\"<&>"}`,
		}},
		{"beside a payload", "payload,domain\n1,a\n2,\"b\xff\"\n", []string{
			`2 ` + push.LineID([]byte("1"), 2) + ` {"id":"` + push.LineID([]byte("1"), 2) + `","payload":1,"lane":"a"}`,
			`3 !column domain: not UTF-8`,
		}},
	} {
		src, err := push.OpenCSV(strings.NewReader(tt.text), "domain")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rest(src); !errors.Is(err, io.EOF) || strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", tt.name, err, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
	// By default a column called lane is part of the payload.
	if got, err := all(t, "id,lane\n1,a\n", push.CSV); !errors.Is(err, io.EOF) ||
		strings.Join(got, "") != `2 1 {"id":"1","payload":{"lane":"a"}}` {
		t.Errorf("%q, %v", got, err)
	}
	for text, want := range map[string]string{
		"id,to\n":            `no lane column "domain" among the columns id, to`,
		"id,domain\n":        "found only a column id and a column domain",
		"domain\n":           "found only a column domain",
		"payload,domain,x\n": "found x",
	} {
		if _, err := push.OpenCSV(strings.NewReader(text), "domain"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, name := range []string{"id", "payload"} {
		if _, err := push.OpenCSV(strings.NewReader("id,payload\n"), name); err == nil ||
			!strings.Contains(err.Error(), "another meaning") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{
		"-": push.NDJSON, "a.ndjson": push.NDJSON, "b.JSONL": push.NDJSON, "c.csv": push.CSV, "d.txt": "", "ndjson": "",
	} {
		if got, err := push.FormatOf(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := push.Open(strings.NewReader(""), "xml"); err == nil {
		t.Error("xml was taken")
	}
}
