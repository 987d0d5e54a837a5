package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/penstock/penstock/internal/console"
	"github.com/penstock/penstock/internal/test/browser"
)

func TestSigningIn(t *testing.T) {
	r := newRig(t)
	p := browser.New(t, browser.Options{})
	p.Go(r.url("/?sort=-fill"))
	p.Type("input[name=token]", "ps_wrong")
	p.Press(kb.Enter)
	if said := p.Text("#wrong"); said == "" {
		t.Error("a wrong token is refused without a word")
	}
	p.Wrong() // the browser logs each answer of 401
	p.Type("input[name=token]", r.secret)
	p.Press(kb.Enter)
	p.Text("#overview")
	if at := p.Address(); at != r.url("/?sort=-fill") {
		t.Errorf("who has signed in is at %s", at)
	}
	if seen := browser.Value[string](p, "document.cookie"); strings.Contains(seen, "ps_") {
		t.Errorf("scripts can read the token: %s", seen)
	}
	p.Click(".menu summary")
	p.Click("form[action$=sign-out] button")
	p.Text("input[name=token]")
	p.Go(r.url("/"))
	p.Text("input[name=token]")
	p.Fine()
}

// An open page continues when the server is back, and the user is still signed in.
func TestServerRestarts(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t)
	r.queue("email", nil)
	p := r.signIn(browser.Options{})
	r.stop()
	p.Until(`document.body.classList.contains("away")`)
	p.Until(`document.getElementById("said").textContent.includes("does not answer")`)
	p.Wrong() // each request that failed
	r.start()
	r.queue("later", nil)
	p.Until(`!document.body.classList.contains("away") && document.querySelector("[data-key=later]")`)
	p.Wrong()
	p.Reload()
	p.Text("#overview")
	p.Fine()
}

// A user whose token is revoked must sign in, and then returns to the page.
func TestTokenIsRevoked(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t)
	r.queue("email", nil)
	made := r.must("POST", "/v1/tokens", fields{"grants": []fields{{"role": "view"}}})
	secret := between(t, made, `"secret":"`, `"`)
	operator := r.secret
	r.secret = secret
	p := r.signIn(browser.Options{})
	r.secret = operator
	r.must("DELETE", "/v1/tokens/"+between(t, made, `"id":"`, `"`), nil)
	p.Text("input[name=token]")
	if at := p.Address(); !strings.Contains(at, "next=") {
		t.Errorf("he is at %s", at)
	}
}

func between(t *testing.T, text, before, after string) string {
	t.Helper()
	_, text, found := strings.Cut(text, before)
	text, _, ends := strings.Cut(text, after)
	if !found || !ends {
		t.Fatalf("nothing between %s and %s", before, after)
	}
	return text
}

// Texts of people and receivers are shown as plain text.
func TestHostileTexts(t *testing.T) {
	const hostile = `<script>document.title="broken"</script><img src=x onerror='document.title="broken"'>"'></td>`
	r := newRig(t)
	r.queue("email", nil)
	r.must("POST", "/v1/queues/email/pause", fields{"reason": hostile})
	p := r.signIn(browser.Options{})
	p.Until(`document.querySelector("[data-key=email]").textContent.includes("<script>document.title")`)
	for _, address := range []string{
		"/?name=" + url.QueryEscape(hostile), "/" + url.PathEscape(hostile), "/?page=-1&sort=x",
	} {
		p.Go(r.url(address))
		if title := browser.Value[string](p, "document.title"); title == "broken" {
			t.Errorf("%s: a script ran", address)
		}
	}
	p.Wrong() // answers of 400 and 404
	p.Go(r.url("/"))
	ran := browser.Value[bool](p, `(() => {
		const script = document.createElement("script");
		script.textContent = "window.ran = true";
		document.body.append(script);
		return Boolean(window.ran);
	})()`)
	if said := p.Wrong(); ran || len(said) == 0 || !strings.Contains(said[0], "Content Security Policy") {
		t.Errorf("a script in the page ran: %v; the browser said %q", ran, said)
	}
}

// A proxy may keep its prefix or remove it.
func TestBehindAPrefix(t *testing.T) {
	r := newRig(t, "--path-prefix", "/ops/penstock")
	r.queue("email", nil)
	for name, keeps := range map[string]bool{"that is kept": true, "that is taken away": false} {
		t.Run(name, func(t *testing.T) {
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: r.addr})
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				rest, has := strings.CutPrefix(q.URL.Path, "/ops/penstock")
				switch {
				case !has:
					http.NotFound(w, q)
				case keeps:
					proxy.ServeHTTP(w, q)
				default:
					q.URL.Path = rest
					proxy.ServeHTTP(w, q)
				}
			}))
			defer front.Close()
			defer front.CloseClientConnections() // a page follows events
			p := browser.New(t, browser.Options{})
			p.Go(front.URL + "/ops/penstock/console")
			p.Type("input[name=token]", r.secret)
			p.Press(kb.Enter)
			p.Text("[data-key=email]")
			p.Click("th:nth-child(3) a")
			p.Until(`location.search === "?sort=-fill" && document.querySelector("th:nth-child(3)[aria-sort=descending]")`)
			p.Fine()
		})
	}
}

func TestWithoutJavaScript(t *testing.T) {
	r := newRig(t)
	r.queue("email", nil)
	p := r.signIn(browser.Options{NoScript: true})
	r.listed("email")
	p.Reload()
	if text := p.Text("[data-key=email]"); !strings.Contains(text, "10/s") {
		t.Errorf("the row of a queue says %q", text)
	}
	p.Click("th:nth-child(3) a")
	p.Text("th[aria-sort=descending]")
	p.Type("input[name=name]", "nothing")
	p.Press(kb.Enter)
	if text := p.Text(".none"); !strings.Contains(text, "No queue") {
		t.Errorf("a search for nothing says %q", text)
	}
	p.Fine()
}

func TestKeyboardOnly(t *testing.T) {
	r := newRig(t)
	r.queue("email", nil)
	r.queue("sms", nil)
	p := r.signIn(browser.Options{})
	p.Press(kb.Tab)
	p.Until(`document.activeElement.classList.contains("skip")`)
	p.Press(kb.Enter)
	p.Until(`document.activeElement.id === "main"`)
	p.Press("/")
	p.Until(`document.activeElement.name === "name"`)
	p.Press("sm")
	p.Until(`location.search === "?name=sm" && !document.querySelector("[data-key=email]") &&
		document.querySelector("[data-key=sms]")`)
	p.Click(".menu summary")
	p.Until(`document.querySelector(".menu").open`)
	p.Press(kb.Escape)
	p.Until(`!document.querySelector(".menu").open && document.activeElement.matches(".menu summary")`)
	p.Fine()
}

// The default theme is the browser's; the user can choose another.
func TestThemes(t *testing.T) {
	r := newRig(t)
	p := r.signIn(browser.Options{Dark: true})
	back := func() string { return browser.Value[string](p, "getComputedStyle(document.body).backgroundColor") }
	dark := back()
	p.Click(".menu summary")
	p.Click("button[value=light]")
	p.Until(`document.documentElement.dataset.theme === "light"`)
	if light := back(); light == dark {
		t.Errorf("light and dark are both %s", light)
	}
	p.Click(".menu summary")
	p.Click("button[value=system]")
	p.Until(`!document.documentElement.dataset.theme`)
	if now := back(); now != dark {
		t.Errorf("that of the system is %s, was %s", now, dark)
	}
	p.Fine()
}

// samples maps path parameters to values that exist in the world.
var samples = strings.NewReplacer("{$}", "", "{queue}", "email", "{id}", "welcome-17", "{app}", "shop",
	"{subject}", "cert:ci", "{rule}", "signup")

// Every page loads without errors, has one heading, and fits a small window.
func TestPages(t *testing.T) {
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.world()
	p := r.signIn(browser.Options{Width: 360, Height: 740})
	for _, path := range console.PagePaths() {
		at := samples.Replace(path)
		if strings.Contains(at, "{") {
			continue // it needs something that is not in the world
		}
		t.Run(strings.ReplaceAll(at, "/", "_"), func(t *testing.T) {
			p.Go(r.url(at))
			if status := browser.Value[int](p, "fetch(location).then((answer) => answer.status)"); status != 200 {
				t.Errorf("it answers %d", status)
			}
			if n := browser.Value[int](p, `document.querySelectorAll("h1").length`); n != 1 {
				t.Errorf("it has %d headings of the first order", n)
			}
			if wide := browser.Value[int](p, "document.documentElement.scrollWidth"); wide > 360 {
				t.Errorf("it is %d wide in a window of 360", wide)
			}
			const tallest = `Math.max(0, ...[...document.querySelectorAll("tbody tr")].map((row) => row.offsetHeight))`
			if high := browser.Value[int](p, tallest); high > 160 {
				t.Errorf("it has a row that is %d high: a column is too narrow for what is in it", high)
			}
			p.Fine()
		})
	}
}

// A change of a queue appears within a second and a half, without a reload.
func TestLive(t *testing.T) {
	r := newRig(t)
	r.queue("email", nil)
	p := r.signIn(browser.Options{})
	p.Until(`document.querySelector("[data-key=email]")`)
	browser.Value[bool](p, `(window.here = true)`)
	for _, step := range []struct{ does, says string }{
		{"pause", "paused"}, {"resume", "idle"}, {"pause", "paused"},
	} {
		begun := time.Now()
		r.must("POST", "/v1/queues/email/"+step.does, fields{})
		p.Until(`document.querySelector("[data-key=email] .state").textContent.includes("` + step.says + `")`)
		t.Logf("%s is seen after %v", step.does, time.Since(begun).Round(time.Millisecond))
	}
	p.Until("window.here")
	p.Fine()
}
