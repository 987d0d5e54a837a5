package smtptarget

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// What can never be sent, or would be sent as something else, is refused on arrival, with its field. None of it makes a
// message with a line, a header or a command more than it should have.
func TestRefusesPayloads(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf("a%d@example.com", i)
	}
	list, _ := json.Marshal(many)
	long := strings.Repeat("x", 65)
	for _, c := range []struct{ payload, field string }{
		{`{`, "payload"},
		{`[]`, "payload"},
		{`"a@example.com"`, "payload"},
		{`{"to": "a@example.com", "body": "x"}`, "payload.body"},
		{`{"to": "a@example.com", "to": "b@example.com"}`, "payload.to"},
		{`{"to": 7}`, "payload.to"},
		{`{"text": "to nobody"}`, "payload.to"},
		{`{"to": [], "text": "to nobody"}`, "payload.to"},
		{`{"to": ` + string(list) + `}`, "payload.to"},
		{`{"bcc": ` + string(list) + `}`, "payload.to"},
		{`{"to": ["a@example.com", "b"]}`, "payload.to[1]"},
		{`{"to": ""}`, "payload.to[0]"},
		{`{"to": "a@example.com, b@example.com"}`, "payload.to[0]"},
		{`{"to": "a@example.com\r\nRCPT TO:<b@example.com>"}`, "payload.to[0]"},
		{`{"to": "a@example.com\nBcc: b@example.com"}`, "payload.to[0]"},
		{`{"to": "Ann\r\nBcc: b@example.com <a@example.com>"}`, "payload.to[0]"},
		{`{"to": "=?utf-8?q?Ann=0D=0ABcc:_b@example.com?= <a@example.com>"}`, "payload.to[0]"},
		{`{"to": "a@example.com\u0000"}`, "payload.to[0]"},
		{`{"to": "a@example.com ORCPT=rfc822;b@example.com"}`, "payload.to[0]"},
		{`{"to": "a@example.com> ORCPT=rfc822;b@example.com <c@example.com"}`, "payload.to[0]"},
		{`{"to": "\"a> NOTIFY=NEVER\"@example.com"}`, "payload.to[0]"},
		{`{"to": "\"a b\"@example.com"}`, "payload.to[0]"},
		{`{"to": "<@relay.example,@other.example:a@example.com>"}`, "payload.to[0]"},
		{`{"to": "a%b@c@example.com"}`, "payload.to[0]"},
		{`{"to": "a@[127.0.0.1]"}`, "payload.to[0]"},
		{`{"to": "a@exa mple.com"}`, "payload.to[0]"},
		{`{"to": "a@-example.com"}`, "payload.to[0]"},
		{`{"to": "a..b@example.com"}`, "payload.to[0]"},
		{`{"to": "a\u2028b@example.com"}`, "payload.to[0]"},
		{`{"to": "a\u202eb@example.com"}`, "payload.to[0]"},
		{`{"to": "` + long + `@example.com"}`, "payload.to[0]"},
		{`{"to": "a@` + strings.Repeat("example.", 40) + `com"}`, "payload.to[0]"},
		{`{"to": "group: a@example.com;"}`, "payload.to[0]"},
		{`{"to": "a@example.com", "cc": "\r"}`, "payload.cc[0]"},
		{`{"to": "a@example.com", "reply_to": "x\r\ny@example.com"}`, "payload.reply_to[0]"},
		{`{"to": "a@example.com", "from": "x> SIZE=1 <y@example.com"}`, "payload.from"},
		{`{"to": "a@example.com", "subject": "x\r\nBcc: b@example.com"}`, "payload.subject"},
		{`{"to": "a@example.com", "subject": "x\nBcc: b@example.com"}`, "payload.subject"},
		{`{"to": "a@example.com", "subject": "x\u2028"}`, "payload.subject"},
		{`{"to": "a@example.com", "subject": "` + strings.Repeat("x", 1100) + `"}`, "payload"},
		{`{"to": "a@example.com", "subject": "x` + strings.Repeat(" ", 71) + `y"}`, "payload.subject"},
		{`{"to": "a@example.com", "headers": {"X-A": "x` + strings.Repeat(" ", 71) + `y"}}`, "payload.headers.X-A"},
		{`{"to": "a@example.com", "headers": {"X-A": "x\r\nBcc: b@example.com"}}`, "payload.headers.X-A"},
		{`{"to": "a@example.com", "headers": {"X-A\r\nBcc": "b@example.com"}}`, "payload.headers"},
		{`{"to": "a@example.com", "headers": {"X-A: b\r\n": "x"}}`, "payload.headers"},
		{`{"to": "a@example.com", "headers": {"": "x"}}`, "payload.headers"},
		{`{"to": "a@example.com", "headers": {"bcc": "b@example.com"}}`, "payload.headers.bcc"},
		{`{"to": "a@example.com", "headers": {"MESSAGE-ID": "<x@y>"}}`, "payload.headers.MESSAGE-ID"},
		{`{"to": "a@example.com", "headers": {"Content-Type": "text/html"}}`, "payload.headers.Content-Type"},
		{`{"to": "a@example.com", "headers": {"Resent-To": "b@example.com"}}`, "payload.headers.Resent-To"},
		{`{"to": "a@example.com", "headers": {"X-A": "1", "x-a": "2"}}`, "payload.headers.x-a"},
		{`{"to": "a@example.com", "headers": {"X-A": "` + strings.Repeat("x", 1100) + `"}}`, "payload"},
		{`{"to": "a@example.com", "headers": {"X-A": "` + strings.Repeat("x ", 9000) + `"}}`, "payload.headers"},
		{`{"to": "a@example.com", "text": "\u0000"}`, "payload.text"},
		{`{"to": "a@example.com", "html": "\u0000"}`, "payload.html"},
		{
			`{"to": "a@example.com", "attachments": [{"name": "a\r\nBcc: b@example.com", "content": ""}]}`,
			"payload.attachments[0].name",
		},
		{`{"to": "a@example.com", "attachments": [{"content": ""}]}`, "payload.attachments[0].name"},
		{
			`{"to": "a@example.com", "attachments": [{"name": "a", "content_type": "text/plain\r\nX: y"}]}`,
			"payload.attachments[0].content_type",
		},
		{
			`{"to": "a@example.com", "attachments": [{"name": "a", "content_type": "multipart/mixed; boundary=x"}]}`,
			"payload.attachments[0].content_type",
		},
		{
			`{"to": "a@example.com", "attachments": [{"name": "a", "content_type": "pdf"}]}`,
			"payload.attachments[0].content_type",
		},
		{
			`{"to": "a@example.com", "attachments": [{"name": "a", "content": "not base64!"}]}`,
			"payload.attachments[0].content",
		},
	} {
		refuses(t, queue.Job{Payload: []byte(c.payload)}, c.field)
	}
	refuses(t, queue.Job{Payload: []byte(`{"to": "a@example.com"}`), ContentType: "text/plain"}, "content_type")
	none := Default()
	if err := none.Accept(&queue.Job{Payload: []byte(`{"to": "a@example.com"}`)}); err == nil ||
		!strings.Contains(err.Error(), "payload.from: is missing") {
		t.Errorf("without a sender: %v", err)
	}
}

func TestRefusesReady(t *testing.T) {
	for _, c := range []struct{ payload, field string }{
		{"", "payload"},
		{"\r\n\r\n", "payload"},
		{"no header\r\n\r\n", "payload"},
		{"From a@example.com Mon\r\nTo: b@example.com\r\n\r\n", "payload"},
		{"To: a@example.com\r\n\r\nx", "payload.from"},
		{"From: a@example.com\r\n\r\nx", "payload.to"},
		{"From: a@example.com\r\nTo: b\r\n\r\nx", "payload.to"},
		{"From: a@example.com\r\nTo: b@example.com\r\nTo: c@example.com\r\n\r\nx", "payload"},
		{"From: a@example.com\r\nFrom: c@example.com\r\nTo: b@example.com\r\n\r\nx", "payload"},
		{"From: a@example.com, c@example.com\r\nTo: b@example.com\r\n\r\nx", "payload.sender"},
		{"From: a@example.com\r\nTo: \"b> NOTIFY=NEVER\"@example.com\r\n\r\nx", "payload.to"},
		{"From: a@example.com\r\nResent-To: b@example.com\r\n\r\nx", "payload"},
		{"From: a@example.com\nTo: b@example.com\n\nx", "payload"},
		{"From: a@example.com\r\nTo: b@example.com\r\n\r\nbare\nLF", "payload"},
		{"From: a@example.com\r\nTo: b@example.com\r\n\r\n\n.\r\nMAIL FROM:<x@y>", "payload"},
		{"From: a@example.com\r\nTo: b@example.com\r\n\r\nbare\rCR", "payload"},
		{"From: a@example.com\r\nTo: b@example.com\r\n\r\nends in CR\r", "payload"},
		{"From: a@example.com\r\nTo: b@example.com\r\n\r\n\x00", "payload"},
		{"From: a@example.com\r\nTo: b@example.com\r\nX: \x01\r\n\r\n", "payload"},
		{"From: a@example.com\r\nTo: b@example.com\r\nX: \xff\r\n\r\n", "payload"},
		{"From: a@example.com\r\nTo: b@example.com\r\n\r\n" + strings.Repeat("x", 999), "payload"},
		{
			"From: a@example.com\r\nTo: a@example.com" + strings.Repeat(",\r\n a@example.com", 9) + "\r\nBcc: " +
				strings.Join(numbered(101), ",\r\n ") + "\r\n\r\nx",
			"payload.to",
		},
	} {
		refuses(t, queue.Job{Payload: []byte(c.payload), ContentType: "message/rfc822"}, c.field)
	}
}

func numbered(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("a%d@example.com", i))
	}
	return all
}

func refuses(t *testing.T, job queue.Job, field string) {
	t.Helper()
	s := Default()
	s.From, s.AllowFrom = "shop@example.com", setting.Patterns{"*@example.com"}
	job.Queue, job.ID = "mail", "1"
	job.Normalize()
	err := s.Accept(&job)
	var e *invalid.Error
	if !errors.As(err, &e) || e.Field != field {
		t.Errorf("%s: %v, want an error of %s", clip.Quote(string(job.Payload), 120), err, field)
	}
	if err != nil && (len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\r\n\x00")) {
		t.Errorf("the error is long, or has a control character: %q", err)
	}
}

func TestAccepts(t *testing.T) {
	s := Default()
	s.From, s.AllowFrom = "shop@example.com", setting.Patterns{"*@example.com"}
	big := base64.StdEncoding.EncodeToString(make([]byte, 600<<10))
	for _, payload := range []string{
		`{"to": "a@example.com"}`,
		`{"to": ["a+b.c=d@sub-domain.example.com", "Ann O'Neil <a@example.com>", "\"Doe, John\" <j@example.com>"], ` +
			`"subject": "` + strings.Repeat("ü", 500) + `"}`,
		`{"bcc": "root@localhost", "text": "` + strings.Repeat("x", 5000) + `\rbare\nline ends\r\nof all kinds"}`,
		`{"to": "a@bücher.example", "html": "<b>"}`,
		`{"to": "a@example.com", "attachments": [{"name": "../../x y.ics", ` +
			`"content_type": "text/calendar; method=REQUEST; name=z", "content": "` + big + `"}]}`,
	} {
		job := queue.Job{Queue: "mail", ID: "1", Payload: []byte(payload)}
		job.Normalize()
		if err := s.Accept(&job); err != nil || job.Cost != 1 {
			t.Errorf("%s: %v", clip.Quote(payload, 100), err)
		}
	}
	job := queue.Job{
		Queue: "mail", ID: "1", ContentType: "Message/RFC822",
		Payload: []byte("Sender: s@example.com\r\nFrom: a@example.com, b@example.com\r\nCc: " +
			strings.Join(numbered(100), ",\r\n\t") + "\r\nReceived: x\r\nReceived: y\r\nSubject: \xc3\xbc\r\n\r\n" +
			strings.Repeat("x", 998)),
	}
	l, err := s.letter(&job, time.Now())
	if err != nil || l.from != "s@example.com" || len(l.to) != 100 || !l.utf8 || l.wide {
		t.Errorf("%v, %+v", err, l)
	}
}

// Wherever a header is folded, none of its lines is left with nothing but spaces.
func TestFoldsNoBlankLines(t *testing.T) {
	s := Default()
	s.From = "shop@example.com"
	for spaces := 1; spaces <= maxSpaces; spaces++ {
		for word := 1; word < 80; word++ {
			value := strings.Repeat("a", word) + strings.Repeat(" ", spaces) + strings.Repeat("b", 73)
			payload := fmt.Sprintf(
				`{"to": "a@example.com", "subject": "%s", "headers": {"X-A": "%[1]s", "X-B": "%[1]s%s"}, "text": "\r\n \r\n"}`,
				value, strings.Repeat(" ", spaces),
			)
			l, err := s.letter(&queue.Job{Queue: "mail", ID: "1", Payload: []byte(payload)}, time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(string(l.text), "\r\n\r\n")
			for _, line := range strings.Split(head, "\r\n") {
				if strings.TrimSpace(line) == "" {
					t.Fatalf("%d and %d spaces: %q", word, spaces, head)
				}
			}
		}
	}
}

// Of whatever is accepted, a message has the headers that it should, and ends no line but with CRLF.
func FuzzCompose(f *testing.F) {
	f.Add("a@example.com", "Ann", "subject", "X-A", "value", "text", "file.txt", "text/plain")
	f.Add("\"a\\\"b\"@example.com", "=?utf-8?q?=0D?=", "\r\n", "X-A:", "\n", "\x00", "a\"b", "a/b; c=\"\r\"")
	f.Fuzz(func(t *testing.T, to, name, subject, header, value, text, file, kind string) {
		payload, err := json.Marshal(map[string]any{
			"to": to, "cc": name + " <c@example.com>", "subject": subject, "text": text,
			"headers":     map[string]string{header: value},
			"attachments": []any{map[string]any{"name": file, "content_type": kind, "content": []byte(text)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := Default()
		s.From = "shop@example.com"
		l, err := s.letter(&queue.Job{Queue: "mail", ID: "1", Payload: payload}, time.Now())
		if err != nil {
			return
		}
		if err := checkLines(l.text); err != nil {
			t.Fatalf("%v in %q", err, l.text)
		}
		head, _, _ := strings.Cut(string(l.text), "\r\n\r\n")
		own := map[string]bool{}
		for _, line := range strings.Split(head, "\r\n") {
			if line[0] != ' ' && line[0] != '\t' {
				name, _, _ := strings.Cut(line, ":")
				own[strings.ToLower(name)] = true
			}
		}
		for name := range own {
			switch name {
			case "from", "to", "cc", "subject", "date", "message-id", "mime-version", "content-type", strings.ToLower(header):
			default:
				t.Fatalf("a header %q of nobody's in %q", name, head)
			}
		}
		for _, a := range append(l.to, l.from) {
			if strings.ContainsAny(a, " <>\"\\\r\n\t,;:()[]\x00") {
				t.Fatalf("address %q", a)
			}
		}
	})
}
