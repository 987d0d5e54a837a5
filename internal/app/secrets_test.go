package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
)

// shared is a buffer that many write to.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.b.Write(p) }

func (s *shared) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// Secrets are planted wherever a target can have some, receivers send back whatever they get, in all ways that they
// can, and what all of it leaves behind is searched.
func TestSecretsAreNowhere(t *testing.T) { onBothEngines(t, secretsAreNowhere) }

func secretsAreNowhere(t *testing.T, o store.Options) {
	key := base64.StdEncoding.EncodeToString([]byte("hunter2-" + strings.Repeat("k", 24)))
	dir := t.TempDir()
	for name, value := range map[string]string{"FILE": "hunter2-file", "PATH": "hunter2-path", "KEY": "whsec_" + key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PENSTOCK_SECRET_VARIABLE", "hunter2-variable")

	source := secrets.Source{Dir: dir}
	may := func(at string) { // the secrets of the files go there
		for _, name := range []string{"FILE", "PATH", "KEY", "VARIABLE"} {
			f, err := os.OpenFile(filepath.Join(dir, name+secrets.Extension), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(f, at+"\n")
			_ = f.Close()
		}
	}
	var log shared
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	app.QuietHTTP(logger)
	t.Cleanup(func() { stdlog.SetOutput(os.Stderr); stdlog.SetFlags(stdlog.LstdFlags) })
	o.Logger = logger
	engine, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	reg := app.NewRegistry()
	in, err := app.NewIngress(engine, app.IngressOptions{
		Listen: ops.Listen{Addr: "127.0.0.1:0"}, ValidateTarget: app.ValidTarget(loopback(t), source), Registry: reg,
		Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	router := deliver.New(deliver.Options{Egress: loopback(t), Secrets: source, Logger: logger})
	out, err := app.NewDrainer(engine, app.DrainerOptions{
		Handler: router, Registry: reg, Listen: ops.Listen{Addr: "127.0.0.1:0"}, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ops.RunAll(ctx, in.Run, out.Run) }()

	refuses := echoes(t, func(string) string { return "HTTP/1.1 410 Gone\r\nConnection: close\r\n\r\n" })
	babbles := echoes(t, func(string) string { return "" })
	overdoes := echoes(t, func(got string) string { return "HTTP/1.1 204 No\r\n\r\n" + got })
	stranger := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	stranger.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	defer stranger.Close()
	var said strings.Builder
	tell := func(method, path, body string, want int) string {
		status, text := call(t, method, in.URL()+path, body, "application/json")
		if status != want {
			t.Errorf("%s %s: %d %s", method, path, status, text)
		}
		said.WriteString(text)
		return text
	}
	for name, target := range map[string]string{
		"refuses": refuses, "babbles": babbles, "overdoes": overdoes, "stranger": stranger.URL,
	} {
		may(strings.TrimPrefix(strings.TrimPrefix(target, "http://"), "https://"))
		tell("PUT", "/v1/queues/"+name,
			fmt.Sprintf(`{"rate":"100/s","slack":"10s","retry":{"max_attempts":1},"deliver":{"http":{
			"url":"%s/${secret:PATH}?token=hunter2-query&a=${secret:VARIABLE}",
			"headers":{"Authorization":"Bearer hunter2-header","X-Api-Key":"${secret:FILE}"},
			"signing":{"secret":"${secret:KEY}","previous_secret":"whsec_%s"}}}}`, target, key), 201)
		tell("POST", "/v1/queues/"+name+"/jobs", `{"id":"1","payload":1,"headers":{"X-Tenant-Token":"hunter2-job"}}`, 202)
	}
	for name, deliver := range map[string]string{
		"mail-login":     smtpSetting(mailbox(t, true), `"hunter2-password"`),
		"mail-login-ref": smtpSetting(mailbox(t, true), `"${secret:FILE}"`),
		"mail-refuses":   smtpSetting(mailbox(t, false), `"hunter2-password"`),
		"text-refuses":   smsSetting(provider(t, 400, `{"code": 21211, "message": %q}`), `"auth_token":"hunter2-token"`),
		"text-ref":       smsSetting(provider(t, 410, "%s"), `"auth_token":"${secret:FILE}"`),
		// in the middle of it
		"text-cut": smsSetting(
			provider(t, 400, `{"code": 21211, "message": "`+strings.Repeat("x", 178)+` %s"}`), `"auth_token":"hunter2-token"`,
		),
		"text-key": smsSetting(
			provider(t, 400, `{"code": 21211, "message": %q}`), `"api_key":"SK1","api_secret":"hunter2-api-secret"`,
		),
		"text-login": smsSetting(
			provider(t, 401, `{"code": 20003, "message": %q}`), `"api_key":"SK1","api_secret":"hunter2-api-secret"`,
		),
		"text-babbles": smsSetting(
			echoes(t, func(string) string { return "HTTP/1.1 hunter2-token\r\n\r\n" }), `"auth_token":"hunter2-token"`,
		),
	} {
		if m := regexp.MustCompile(`127\.0\.0\.1(?:","port")?:(\d+)`).FindStringSubmatch(deliver); m != nil {
			may("127.0.0.1:" + m[1])
		}
		tell(
			"PUT", "/v1/queues/"+name, `{"rate":"100/s","slack":"10s","retry":{"max_attempts":1},"deliver":`+deliver+`}`, 201,
		)
		tell(
			"POST", "/v1/queues/"+name+"/jobs",
			`{"id":"1","payload":{"to":"`+map[bool]string{
				true: "a@example.com", false: "+4915100000000",
			}[name[0] == 'm']+`","text":"x"}}`,
			202,
		)
	}
	// A receiver that writes what it was sent in another way, another one for each job.
	encodings := map[string]func(string) string{
		"json":    func(s string) string { return strings.ReplaceAll(s, "h", `\u0068`) },
		"percent": func(s string) string { return strings.ReplaceAll(s, "h", "%68") },
		"base64":  func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("k:" + s + ";")) },
		"decoded": func(s string) string { b, _ := base64.StdEncoding.DecodeString(s); return string(b) },
	}
	encodes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		encode := encodings[r.Header.Get("Penstock-Id")]
		_, basic, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if sent := r.Header.Get("X-Api-Key"); r.Header.Get("Penstock-Id") != "decoded" {
			basic = sent
		}
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, "you said "+encode(basic))
	}))
	defer encodes.Close()
	may(strings.TrimPrefix(encodes.URL, "http://"))
	tell("PUT", "/v1/queues/encodes",
		fmt.Sprintf(`{"rate":"100/s","slack":"10s","retry":{"max_attempts":1},"deliver":{"http":{"url":%q,`+
			`"headers":{"X-Api-Key":"${secret:FILE}","Authorization":"Basic %s"}}}}`,
			encodes.URL, base64.StdEncoding.EncodeToString([]byte("me:hunter2-basic"))), 201)
	for id := range encodings {
		tell("POST", "/v1/queues/encodes/jobs", `{"id":"`+id+`","payload":1}`, 202)
		await.Until(t, id+" is dead", func() bool {
			return strings.Contains(tell("GET", "/v1/queues/encodes/jobs/"+id, "", 200), `"state":"dead"`)
		})
	}
	for _, bad := range []string{
		`{"smtp":{"host":"a.example","username":"u","password":"hunter2\n"}}`,
		`{"smtp":{"host":"a.example","password":"hunter2"}}`,
		`{"smtp":{"host":"a.example","username":"u","password":"hunter2","tls":"none"}}`,
		`{"smtp":{"host":"u:hunter2@a.example"}}`, `{"smtp":{"host":"10.0.0.1","username":"u","password":"hunter2"}}`,
		`{"sms":{"provider":"twilio","account":"hunter2:hunter2@","auth_token":"hunter2"}}`,
		`{"sms":{"provider":"twilio","account":"AC1","from":"+14155550100","auth_token":"hunter2","api_secret":"hunter2"}}`,
		`{"sms":{"provider":"twilio","account":"AC1","from":"+14155550100","auth_token":"hunter2",` +
			`"url":"https://u:hunter2@a.example"}}`,
		`{"sms":{"provider":"twilio","account":"AC1","from":"+14155550100","auth_token":"hunter2",` +
			`"status_callback":"gopher://u:hunter2@a.example?x=hunter2"}}`,
	} {
		tell("PUT", "/v1/queues/bad", `{"rate":"1/s","deliver":`+bad+`}`, 400)
	}
	for _, bad := range []string{
		`{"url":"http://u:hunter2-user@a/"}`, `{"url":"http://u:hunter2-user@10.0.0.1/?a=hunter2"}`,
		`{"url":"gopher://a/?a=hunter2"}`, `{"url":"http://10.0.0.1/?a=hunter2"}`,
		`{"url":"http://a/","signing":{"secret":"hunter2"}}`, `{"url":"http://a/","tls":{"cert":"hunter2","key":"hunter2"}}`,
		`{"url":"http://a/","headers":{"X-Key":"hunter2\n"}}`,
	} {
		tell("PUT", "/v1/queues/bad", `{"rate":"1/s","deliver":{"http":`+bad+`}}`, 400)
	}
	for name, says := range map[string]string{
		"refuses": `"state":"dead"`, "babbles": `"state":"dead"`, "overdoes": `"state":"delivered"`,
		"stranger":   "certificate",
		"mail-login": "535 5.7.8 you said", "mail-login-ref": "535 5.7.8 you said", "mail-refuses": `"state":"dead"`,
		"text-refuses": `"state":"dead"`, "text-ref": `"state":"dead"`, "text-cut": `"state":"dead"`,
		"text-key": `"state":"dead"`, "text-login": "20003", "text-babbles": `"state":"held"`,
	} {
		await.Until(t, name+" has answered", func() bool {
			return strings.Contains(tell("GET", "/v1/queues/"+name+"/jobs/1", "", 200), says)
		})
		for _, path := range []string{"", "/jobs?state=dead", "/jobs?state=waiting", "/jobs?state=held", "/changes"} {
			tell("GET", "/v1/queues/"+name+path, "", 200)
		}
	}
	for _, path := range []string{"/v1/queues", "/v1/dead", "/metrics", "/readyz"} {
		tell("GET", path, "", 200)
	}
	_, page := call(t, "GET", "http://"+out.Addr().String()+"/metrics", "", "")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_, _ = router.Close(), engine.Close()
	planted := []string{
		"hunter2", key, url.QueryEscape(key), `\\u0068unter2`, "%68unter2",
		base64.RawURLEncoding.EncodeToString([]byte("k:hunter2-file;"))[3:],
	}
	for _, login := range []string{ // as they are sent
		"hunter2-password", "hunter2-file", "\x00me\x00hunter2-password", "\x00me\x00hunter2-file",
		"AC1:hunter2-token", "AC1:hunter2-file", "SK1:hunter2-api-secret",
	} {
		planted = append(planted, base64.StdEncoding.EncodeToString([]byte(login)))
	}
	for where, text := range map[string]string{
		"the API": said.String(), "the drainer's metrics": page, "the log": log.String(),
	} {
		for _, secret := range planted {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s has a secret: ...%s...", where, text[max(0, i-300):min(len(text), i+100)])
			}
		}
	}
	for _, text := range []string{
		"${secret:FILE}", "the receiver answered 410: ", "550 5.1.1 you said", "the provider refused: 21211 you said",
	} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("the search would find nothing: there is no %q in\n%s", text, said.String())
		}
	}
}

func smtpSetting(port int, password string) string {
	return fmt.Sprintf(
		`{"smtp":{"host":"127.0.0.1","port":%d,"tls":"none","from":"shop@example.com","username":"me","password":%s}}`, port,
		password,
	)
}

func smsSetting(at, login string) string {
	return fmt.Sprintf(
		`{"sms":{"provider":"twilio","url":%q,"account":"AC1","from":"+14155550100","grace":"1ms",%s,`+
			`"status_callback":"https://example.com/seen?token=hunter2-callback"}}`,
		at, login,
	)
}

// provider is one of texts that tells all that it got, in an answer as format has it.
func provider(t *testing.T, status int, format string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, format, "you said "+user+" "+password+" "+r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// mailbox is a server of mail that tells what it was sent to log in, in its answer to that or to the recipient.
func mailbox(t *testing.T, login bool) (port int) {
	t.Helper()
	return serving(t, func(c net.Conn) {
		said := ""
		_, _ = io.WriteString(c, "220 mail\r\n")
		for lines := bufio.NewScanner(c); lines.Scan(); {
			answer := "250 ok"
			switch command, rest, _ := strings.Cut(lines.Text(), " "); command {
			case "EHLO":
				answer = "250-mail\r\n250 AUTH PLAIN"
			case "AUTH":
				_, encoded, _ := strings.Cut(rest, " ")
				plain, _ := base64.StdEncoding.DecodeString(encoded)
				said = "you said " + encoded + " " + strings.ReplaceAll(string(plain), "\x00", " ")
				if answer = "235 ok"; login {
					answer = "535 5.7.8 " + said
				}
			case "RCPT":
				answer = "550 5.1.1 " + said
			case "QUIT":
				answer = "221 bye"
			}
			if _, err := io.WriteString(c, answer+"\r\n"); err != nil {
				return
			}
		}
	}).Port
}

// echoes is a receiver that sends back, behind what answer makes of it, all that it gets.
func echoes(t *testing.T, answer func(got string) string) string {
	t.Helper()
	return "http://" + serving(t, func(c net.Conn) {
		b := make([]byte, 64<<10)
		n, _ := c.Read(b)
		got := "hunter2-file hunter2-path hunter2-variable " + string(b[:n])
		_, _ = io.WriteString(c, answer(got)+got)
	}).String()
}

// serving gives each connection to serve, and closes it behind that.
func serving(t *testing.T, serve func(net.Conn)) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	return l.Addr().(*net.TCPAddr)
}
