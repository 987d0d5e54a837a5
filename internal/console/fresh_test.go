package console_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/penstock/penstock/internal/test/browser"
)

// The page shows the time of its data. After 5 s without an answer it says so and grays out the values, even if the
// server accepts requests and never answers.
func TestFreshness(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t)
	r.queue("email", nil)
	r.listed("email")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: r.addr})
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	var hangs atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if hangs.Load() {
			_, _ = io.Copy(io.Discard, q.Body)
			<-q.Context().Done()
			return
		}
		proxy.ServeHTTP(w, q)
	}))
	defer front.Close()
	defer front.CloseClientConnections() // a page follows events
	p := browser.New(t, browser.Options{})
	p.Go(front.URL + "/console/")
	p.Type("input[name=token]", r.secret)
	p.Press(kb.Enter)
	p.Text("[data-key=email]")
	form := regexp.MustCompile(`^Data from \d\d:\d\d:\d\d UTC$`)
	if text := p.Text("#fresh"); !form.MatchString(text) {
		t.Errorf("it says %q", text)
	}
	color := `getComputedStyle(document.querySelector("[data-key=email] .num")).color`
	muted := `getComputedStyle(document.querySelector(".fresh + .menu summary")).color`
	fresh := browser.Value[string](p, color)
	first := p.Text("#fresh")
	p.Until(`document.getElementById("fresh").textContent !== "` + first + `"`)

	hangs.Store(true)
	front.CloseClientConnections()
	p.Until(`document.body.classList.contains("away")`)
	if text := p.Text("#fresh"); !strings.HasPrefix(text, "No answer for ") || !strings.Contains(text, "Data from ") {
		t.Errorf("while the server hangs it says %q", text)
	}
	if gray := browser.Value[string](p, color); gray == fresh || gray != browser.Value[string](p, muted) {
		t.Errorf("values are %s, were %s", gray, fresh)
	}
	hangs.Store(false)
	p.Until(`!document.body.classList.contains("away")`)
	if text := p.Text("#fresh"); !form.MatchString(text) {
		t.Errorf("later it says %q", text)
	}
	if again := browser.Value[string](p, color); again != fresh {
		t.Errorf("values are %s, were %s", again, fresh)
	}
	p.Wrong() // each request that failed
}

// All times are in UTC, whatever the zone of the browser.
func TestOneTimeZone(t *testing.T) {
	r := newRig(t)
	r.queue("email", nil)
	r.jobs("email", 3, nil)
	p := r.signIn(browser.Options{Zone: "Asia/Kolkata"})
	if zone := browser.Value[int](p, "new Date().getTimezoneOffset()"); zone != -330 {
		t.Fatalf("the browser is %d minutes from UTC", zone)
	}
	p.Go(r.url("/queues/email"))
	clock := `new Date().toISOString().slice(11, 16)`
	p.Until(`document.getElementById("fresh").textContent.includes(` + clock + `)`)
	// The legend says where the cursor is.
	p.Until(`(() => {
		const over = document.querySelector(".charts .u-over"), box = over.getBoundingClientRect();
		over.dispatchEvent(new MouseEvent("mousemove", { clientX: box.right - 2, clientY: box.top + 5, bubbles: true }));
		window.said = document.querySelector(".charts .u-legend .u-value").textContent;
		return said.endsWith(" UTC");
	})()`)
	const minutes = `(Date.now() - Date.parse("1970-01-01T" + said.slice(0, 8) + "Z")) / 60000 % 1440`
	if ago := browser.Value[float64](p, minutes); ago > 20 {
		t.Errorf("the newest value of the chart is %.0f minutes old: %s", ago, browser.Value[string](p, "said"))
	}
	p.Fine()
}

// j and k move through the rows of a list, Enter opens one, and ? lists the keys.
func TestKeysOfLists(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.queue(name, nil)
		r.listed(name)
	}
	p := r.signIn(browser.Options{})
	p.Reload()
	at := func(name string) {
		t.Helper()
		p.Until(`document.activeElement.closest("[data-key]")?.dataset.key === "` + name + `"`)
	}
	for _, step := range []struct{ key, at string }{
		{"j", "a"}, {"j", "b"}, {"j", "c"}, {"j", "c"}, {"k", "b"}, {"k", "a"}, {"k", "a"}, {"j", "b"},
	} {
		p.Press(step.key)
		at(step.at)
	}
	p.Press("?")
	p.Until(`document.getElementById("keys").open`)
	p.Press("j") // not while the dialog is open
	p.Press(kb.Escape)
	p.Until(`!document.getElementById("keys").open`)
	at("b")
	p.Press("/")
	p.Until(`document.activeElement.name === "name"`)
	p.Press("jk?") // letters in a field
	p.Until(`document.activeElement.value === "jk?" && !document.getElementById("keys").open`)
	p.Go(r.url("/"))
	p.Press("j")
	p.Press("j")
	at("b")
	p.Press(kb.Enter)
	p.Until(`location.pathname.endsWith("/queues/b")`)
	p.Fine()
}
