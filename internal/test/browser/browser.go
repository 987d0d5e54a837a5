// Package browser lets a test visit pages in a real browser: headless Chromium.
//
// A test sees everything that goes wrong in a page: a script that threw, a file that did not load, a part that the
// page's own policy forbade. Without a browser a test is not skipped: it fails, and says what to install.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"

	"github.com/penstock/penstock/internal/test/await"
)

// variable is the environment variable with the browser's program, instead of one in PATH.
const variable = "PENSTOCK_CHROMIUM"

// patience is how long to wait for a page.
const patience = 20 * time.Second

func program() (string, error) {
	if path := os.Getenv(variable); path != "" {
		return path, nil
	}
	for _, name := range []string{
		"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no Chromium in PATH: scripts/chromium.sh installs it, or set %s to its path",
		variable)
}

// one is the browser that all tests of a program share.
var one struct {
	sync.Mutex
	context context.Context
	close   []context.CancelFunc
	idle    []*tab // used by a test before, and free again
}

// Main runs the tests of a package, and then stops the browser.
func Main(m *testing.M) {
	code := m.Run()
	for i := len(one.close) - 1; i >= 0; i-- {
		one.close[i]()
	}
	os.Exit(code)
}

func started(t testing.TB) context.Context {
	t.Helper()
	one.Lock()
	defer one.Unlock()
	if one.context != nil {
		return one.context
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("headless", "new"), chromedp.Flag("force-prefers-reduced-motion", true))
	allocator, closeAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	browser, closeBrowser := chromedp.NewContext(allocator)
	one.close = append(one.close, closeAllocator, closeBrowser)
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	one.context = browser
	return browser
}

// Page is a page of a browser with its own cookies.
type Page struct {
	t testing.TB
	*tab
}

// Options are the properties of a page's browser. Zero fields mean the defaults named here.
type Options struct {
	Width, Height int64 // 1280 x 800
	Dark          bool
	NoScript      bool   // scripts do not run
	Zone          string // time zone; empty: the host's
}

// New opens a page until the test ends.
func New(t testing.TB, o Options) *Page {
	t.Helper()
	p := &Page{t: t, tab: openTab(t)}
	t.Cleanup(p.leave)
	if o.Width == 0 {
		o.Width, o.Height = 1280, 800
	}
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	call(p, log.Enable, cdp.Empty{})
	p.Resize(o.Width, o.Height)
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: o.Zone})
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: o.NoScript})
	return p
}

// Wrong returns what went wrong since the last call.
func (p *Page) Wrong() []string { return p.wrong() }

// Fine fails the test if anything went wrong in the page.
func (p *Page) Fine() {
	p.t.Helper()
	for _, wrong := range p.Wrong() {
		p.t.Errorf("%s: %s", p.Address(), wrong)
	}
}

func call[P, R any](p *Page, command cdp.Command[P, R], params P) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		p.t.Fatalf("%s: %v", command.Method, err)
	}
}

// gone is the browser's error for an object of a page that was left meanwhile.
var gone = regexp.MustCompile("node with given id|Cannot find context with specified id")

func run[T any](p *Page, what string, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		v, err := chromedp.Run(ctx, action)
		switch {
		case err == nil:
			return v
		case ctx.Err() == nil && gone.MatchString(err.Error()):
			continue
		}
		p.t.Fatalf("%s: %v; the page says %q", what, err, p.Wrong())
	}
}

// Go opens an address, and waits until it is loaded.
func (p *Page) Go(url string) {
	p.t.Helper()
	run(p, "go to "+url, chromedp.Navigate(url))
}

// Reload reloads the page.
func (p *Page) Reload() {
	p.t.Helper()
	run(p, "reload", chromedp.Reload())
}

// Address returns the page's address.
func (p *Page) Address() string {
	p.t.Helper()
	return run(p, "the address", chromedp.Location())
}

// Text waits for the first element of a selector and returns its text.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return run(p, "read "+selector, chromedp.Text(chromedp.CSS(selector)))
}

// Click waits for an element and clicks it.
func (p *Page) Click(selector string) {
	p.t.Helper()
	run(p, "click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Drag presses the mouse on an element, moves it by some pixels in steps, and releases it after held has run.
func (p *Page) Drag(selector string, dx, dy float64, held func()) {
	p.t.Helper()
	p.Until(`document.querySelector("` + selector + `")`)
	at := Value[[]float64](p, `(() => {
		const element = document.querySelector("`+selector+`");
		element.scrollIntoView({ block: "center" });
		const box = element.getBoundingClientRect();
		return [box.left + box.width / 2, box.top + box.height / 2];
	})()`)
	send := func(kind input.DispatchMouseEventType, x, y float64) {
		call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: kind, X: x, Y: y, Button: "left", Buttons: 1, ClickCount: 1,
		})
	}
	const steps = 8
	send("mousePressed", at[0], at[1])
	for n := 1.0; n <= steps; n++ {
		send("mouseMoved", at[0]+dx*n/steps, at[1]+dy*n/steps)
	}
	held()
	send("mouseReleased", at[0]+dx, at[1]+dy)
}

// Type waits for an element and types a text into it.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	run(p, "type into "+selector, chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Choose waits for a file field and chooses files.
func (p *Page) Choose(selector string, files ...string) {
	p.t.Helper()
	run(p, "choose files in "+selector, chromedp.SetUploadFiles(chromedp.CSS(selector), files))
}

// Press presses a key of chromedp's package kb, or types a text, where the focus is.
func (p *Page) Press(keys string) {
	p.t.Helper()
	run(p, "press a key", chromedp.KeyEvent(keys))
}

// Until waits until an expression of JavaScript is true.
func (p *Page) Until(expression string) {
	p.t.Helper()
	for begun := time.Now(); ; await.Pause(begun) {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		cancel()
		if err == nil && is {
			return
		}
		if time.Since(begun) > patience {
			p.t.Fatalf("at %s, %s did not become true: %v; the page says %q", p.Address(), expression, err, p.Wrong())
		}
	}
}

// Value returns the value of a JavaScript expression, or of its promise.
func Value[T any](p *Page, expression string) T {
	p.t.Helper()
	return run(p, expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// axeVariable is the environment variable with the path of axe-core's script.
const axeVariable = "PENSTOCK_AXE"

// AxeScript returns the script of axe-core, which checks a page for accessibility.
func AxeScript(t testing.TB) string {
	t.Helper()
	path := os.Getenv(axeVariable)
	if path == "" {
		t.Fatalf("%s is not set: set it to the path that scripts/axe.sh prints", axeVariable)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Violations returns what axe-core finds wrong in the page: a line for each rule, with the elements. Without rules it
// checks all.
func (p *Page) Violations(axe string, rules ...string) []string {
	p.t.Helper()
	if !Value[bool](p, "'axe' in window") {
		run(p, "load axe-core", chromedp.Evaluate[bool](axe+";true"))
	}
	only, err := json.Marshal(rules)
	if err != nil {
		p.t.Fatal(err)
	}
	return Value[[]string](p, `axe.run(document, {
		resultTypes: ["violations"], runOnly: `+string(only)+` ?? undefined,
	}).then((found) => found.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 5).map((n) =>
			n.html.slice(0, 200) + " (" + (n.any[0] || n.all[0] || n.none[0] || {}).message + ")").join("; ")))`)
}

// Resize changes the size of the page's window.
func (p *Page) Resize(width, height int64) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1,
	})
}

// Picture writes a screenshot of the page into a PNG file.
func (p *Page) Picture(file string) {
	p.t.Helper()
	if err := os.WriteFile(file, run(p, "take a picture", chromedp.CaptureScreenshot()), 0o644); err != nil {
		p.t.Fatal(err)
	}
}
