package console_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/penstock/penstock/internal/test/browser"
)

// accessLog writes a web server log with n requests, ten per second, the last from another client, and an invalid line.
func accessLog(t *testing.T, n int) string {
	t.Helper()
	var log strings.Builder
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range n {
		client := "10.0.0.1"
		if i == n-1 {
			client = "<script>document.title='broken'</script>"
		}
		fmt.Fprintf(&log, "%s - - [%s] \"GET /a HTTP/1.1\" 200 12\n", client,
			at.Add(time.Duration(i/10)*time.Second).Format("02/Jan/2006:15:04:05 -0700"))
	}
	return file(t, "access.log", log.String()+"<i>this</i> is none\n")
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// viewer signs in with only the role view.
func (r *rig) viewer(o browser.Options) *browser.Page {
	r.t.Helper()
	made := r.must("POST", "/v1/tokens", fields{"grants": []fields{{"role": "view"}}})
	operator := r.secret
	r.secret = between(r.t, made, `"secret":"`, `"`)
	defer func() { r.secret = operator }()
	return r.signIn(o)
}

// The role view is enough to replay a log. The user can replay the same log again without choosing it again.
func TestReplay(t *testing.T) {
	r := newRig(t)
	r.queue("email", fields{"rate": "1/s", "capacity": 5})
	r.must("PUT", "/v1/rules/signup", fields{
		"algorithm": "fixed_window", "limit": 5, "period": "1h", "key": "{lane}",
	})
	p := r.viewer(browser.Options{})
	p.Go(r.url("/rules/signup"))
	p.Click(".actions a[href*=replay]")
	p.Choose("input[type=file]", accessLog(t, 101))
	p.Type("textarea[name=queue]", "email")
	p.Type("input[name=key]", "remote_addr")
	p.Click(".replay .do button")
	p.Until(`document.querySelector("#outcome h2")`)
	says := p.Text("#outcome")
	for _, want := range []string{
		"101 requests in access.log", "signup", "Refused\n95", "Queue email", "<script>", "line 102",
	} {
		if !strings.Contains(says, want) {
			t.Errorf("the page does not say %q: %s", want, says)
		}
	}
	browser.Value[bool](p, `(document.querySelector("textarea[name=rule]").value +=
		"\n meter rate=1000/s burst=100", true)`)
	p.Click(".replay .do button")
	p.Until(`document.querySelectorAll("#outcome .card").length > 2`)
	if title := browser.Value[string](p, "document.title"); title == "broken" {
		t.Error("a script of the log ran")
	}
	p.Fine()
}

func TestReplayWithoutJavaScript(t *testing.T) {
	r := newRig(t)
	p := r.viewer(browser.Options{NoScript: true})
	p.Go(r.url("/replay"))
	p.Type("textarea[name=rule]", "fixed_window limit=5 period=1h")
	p.Type("input[name=key]", kb.Tab) // there is nothing that needs a pointer
	p.Choose("input[type=file]", accessLog(t, 101))
	p.Type("input[name=key]", "remote_addr"+kb.Enter)
	p.Text("#outcome h2")
	if says := p.Text("#outcome"); !strings.Contains(says, "101 requests") || !strings.Contains(says, "95") {
		t.Errorf("the page says %q", says)
	}
	kept := browser.Value[string](p, `document.querySelector("textarea[name=rule]").value`)
	if !strings.Contains(kept, "limit=5") {
		t.Errorf("the form says %q", kept)
	}
	p.Fine()
}

// Invalid logs are refused with a reason.
func TestReplayOfHostileFiles(t *testing.T) {
	r := newRig(t)
	p := r.viewer(browser.Options{})
	for _, c := range []struct{ name, file, says string }{
		{"binary", file(t, "a.bin", "\x7fELF\x00\x01"), "is a binary file"},
		{"empty", file(t, "b.log", ""), "no line to replay"},
		{"no log", file(t, "c.log", strings.Repeat("lorem ipsum\n", 9)), "does not identify the format"},
		{"an endless line", file(t, "d.log", strings.Repeat("x", 3<<20)), "does not identify the format"},
		{"too many lines", file(t, "e.log", strings.Repeat("{}\n", 1_000_001)), "time"},
		{
			"too many blank lines", file(t, "f.log", `{"time":"2026-03-01T12:00:00Z"}`+strings.Repeat("\n", 1_000_001)),
			"1,000,000 lines",
		},
		{"a name", file(t, `<img src=x onerror="document.title='broken'">.log`, "\x00"), "<img src=x"},
		{"long", file(t, "g.log", strings.Repeat(strings.Repeat("x", 1023)+"\n", 65<<10)), "longer than 64 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.Go(r.url("/replay?rule=meter+rate%3D5%2Fs"))
			p.Choose("input[type=file]", c.file)
			p.Click(".replay .do button")
			p.Until(`document.querySelector("#outcome .wrong, #said.bad")`)
			says := browser.Value[string](p, `document.querySelector("#outcome").textContent + `+
				`document.querySelector("#said").textContent`)
			if !strings.Contains(says, c.says) {
				t.Errorf("the page says %q", says)
			}
			if title := browser.Value[string](p, "document.title"); title == "broken" {
				t.Error("a script ran")
			}
		})
	}
	p.Wrong() // the answers of 400 and 413
}

// Logs sent by other sites or without a session are refused. A refused log is read to its end, so that the browser
// shows the reason.
func TestReplayForms(t *testing.T) {
	r := newRig(t)
	form := func(log string) (kind string, body []byte) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.WriteField("rule", "meter rate=5/s")
		part, err := w.CreateFormFile("log", "access.log")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, log)
		_ = w.Close()
		return w.FormDataContentType(), b.Bytes()
	}
	long := strings.Repeat(strings.Repeat("x", 1023)+"\n", 80<<10)
	session := between(t, r.must(http.MethodPost, "/v1/session", nil), `"secret":"`, `"`)
	for _, c := range []struct {
		name, from, cookie, log string
		status                  int
		says                    string
	}{
		{"another site", "cross-site", session, "x", 403, "cross_site"},
		{"a stranger", "same-origin", "", "x", 303, ""},
		{"a token in place of a session", "same-origin", r.secret, "x", 303, ""},
		{"80 MiB", "same-origin", session, `{"time":"2026-03-01T12:00:00Z"}` + "\n" + long, 413, "64 MiB, unpacked"},
		{"no log", "same-origin", session, "lorem", 400, "does not identify the format"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, body := form(c.log)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url("/replay"), bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", kind)
			req.Header.Set("Sec-Fetch-Site", c.from)
			req.Header.Set("Cookie", "__Host-penstock-session="+c.cookie)
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			page, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.status || !strings.Contains(string(page), c.says) {
				t.Errorf("%d, %v: %.2000s", resp.StatusCode, err, page)
			}
		})
	}
}
