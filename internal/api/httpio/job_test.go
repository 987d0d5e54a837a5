package httpio

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// FuzzJobReader holds the parser to the standard library's: what it takes is JSON,
// means the same, and its payload is a part of what was sent. Nothing that it
// refuses makes it, or the next job, go wrong.
func FuzzJobReader(f *testing.F) {
	for _, s := range []string{
		`{"payload":{"a":[1,2,{"b":null}]},"id":"x","cost":3,"headers":{"a":"b"},"content_type":"text/plain"}`,
		`{"payload":1,"lane":"example.com","priority":9,"not_before":"2100-01-02T16:04:05Z"}`,
		`{"payload":1,"lane":"\u00e9","priority":-0,"not_before":"2100-01-02"}`,
		`{"payload":1,"expires_at":"2100-01-02T16:04:05.123456789+01:00","overflow":"defer"}`,
		`{"payload":1,"expires_at":"2100-01-02T15:04:05","overflow":"reject"}`,
		`{"payload_base64":"AAEC/w==","id":"\u0041"}`, `{"p\u0061yload": 1e400 }`, `{"payload":1,"payload":2}`,
		`{"payload":`, `[]`, ``, `{"payload":"\ud800"}`, "{\"payload\":\"\xff\"}",
		`{"headers":{"a":"1","\u0061":"2"},"payload":0}`, `{"cost":1.0,"payload":0}`, strings.Repeat(`{"payload":`, 50),
		`{"a` + strings.Repeat("é", 50) + `":1}`, `{"payload":1,"id":"` + strings.Repeat("é", 100) + `"}`,
		`{"payload":1,"headers":{"x":"\u00ff"}}`, `{"cost":"` + strings.Repeat("é", 100) + `"}`,
	} {
		f.Add([]byte(s))
	}
	env := NewJobReader()
	f.Fuzz(func(t *testing.T, raw []byte) {
		sent := bytes.Clone(raw)
		job := queue.Job{Queue: "q"}
		p := env.Read(raw, &job)
		if !bytes.Equal(raw, sent) {
			t.Fatalf("%q became %q", sent, raw)
		}
		if p != nil {
			if p.Reason.Status == 0 || len(p.Detail) == 0 || len(p.Detail) > 1000 || len(p.Field) > 400 {
				t.Errorf("refused with %+v", p)
			}
			if answer := p.AppendBody(nil, ""); !json.Valid(answer) || !utf8.Valid(answer) {
				t.Errorf("the refusal is not JSON: %s", answer)
			}
		} else {
			same(t, raw, &job)
		}
		var next queue.Job
		if p := env.Read([]byte(`{"payload":[7],"id":"next"}`), &next); p != nil || string(next.Payload) != "[7]" ||
			next.ID != "next" || next.Cost != 0 || next.Headers != nil {
			t.Errorf("after it, a good job is %+v, %v", next, p)
		}
	})
}

// same compares a job with what the standard library makes of it.
func same(t *testing.T, raw []byte, job *queue.Job) {
	t.Helper()
	var want struct {
		Payload       json.RawMessage   `json:"payload"`
		PayloadBase64 []byte            `json:"payload_base64"`
		ContentType   string            `json:"content_type"`
		ID            string            `json:"id"`
		Headers       map[string]string `json:"headers"`
		Cost          int64             `json:"cost"`
		Lane          string            `json:"lane"`
		Priority      int               `json:"priority"`
		NotBefore     time.Time         `json:"not_before"`
		ExpiresAt     time.Time         `json:"expires_at"`
		Overflow      string            `json:"overflow"`
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatalf("%q was taken, but %v", raw, err)
	}
	payload := []byte(want.Payload)
	if want.PayloadBase64 != nil {
		payload = want.PayloadBase64
	}
	if !bytes.Equal(job.Payload, payload) || job.ID != want.ID || job.Cost != want.Cost ||
		len(job.Headers) != len(want.Headers) ||
		job.Lane != want.Lane || job.Priority != want.Priority || !job.NotBefore.Equal(want.NotBefore) ||
		!job.ExpiresAt.Equal(want.ExpiresAt) || job.Overflow != want.Overflow ||
		want.ContentType != "" && job.ContentType != want.ContentType || job.Queue != "q" {
		t.Errorf("%q is %+v, want %+v", raw, job, want)
	}
	for name, value := range want.Headers {
		if job.Headers[name] != value {
			t.Errorf("%q: header %q is %q, want %q", raw, name, job.Headers[name], value)
		}
	}
}

func TestLines(t *testing.T) {
	memory := ops.NewBudget(8 << 20)
	long := strings.Repeat("x", 10)
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"a\nb\n", "a|b"},
		{"a\nb", "a|b"},
		{"\n\na", "||a"},
		{"a\r\n", "a\r"},
		{long + "\n" + long, long + "|" + long},
		{long + "y\na", "OVER|a"},
		{"a\n" + long + "y", "a|OVER"},
		{long + long + long + "\n" + long + long + "\nb\n", "OVER|OVER|b"},
	} {
		for _, r := range []io.Reader{
			strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)),
			iotest.DataErrReader(strings.NewReader(c.in)),
		} {
			l := NewLines(r, 10, &Charge{account: memory.Nobody()})
			var got []string
			for {
				line, refused, err := l.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if refused != nil {
					line = []byte("OVER")
				}
				got = append(got, string(line))
			}
			if strings.Join(got, "|") != c.want {
				t.Errorf("%q: %q, want %q", c.in, strings.Join(got, "|"), c.want)
			}
		}
	}
	// A line longer than the reader's buffer, and one that broke off.
	huge := strings.Repeat("z", 200<<10)
	l := NewLines(
		io.MultiReader(strings.NewReader(huge+"\nshort\npart"), iotest.ErrReader(io.ErrUnexpectedEOF)), 1<<20,
		&Charge{account: memory.Nobody()},
	)
	for _, want := range []string{huge, "short"} {
		if line, refused, err := l.Next(); string(line) != want || refused != nil || err != nil {
			t.Errorf("a line of %d bytes, %v, %v; want %d", len(line), refused, err, len(want))
		}
	}
	if line, _, err := l.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a line that broke off is %q, %v", line, err)
	}
}
