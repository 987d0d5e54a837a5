package browser

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a tab with its own cookies. Making one takes Chromium half a second of CPU, so tests reuse them one after
// another.
type tab struct {
	ctx   context.Context
	close context.CancelFunc

	mu   sync.Mutex
	said []string
}

// openTab returns a free tab without a page.
func openTab(t testing.TB) *tab {
	t.Helper()
	browser := started(t)
	one.Lock()
	if n := len(one.idle); n > 0 {
		b := one.idle[n-1]
		one.idle = one.idle[:n-1]
		one.Unlock()
		b.wrong() // drops what the last page reported while it was left
		return b
	}
	one.Unlock()
	b := &tab{}
	b.ctx, b.close = chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	if err := chromedp.Listen(b.ctx, b.hear); err != nil {
		b.close()
		t.Fatal(err)
	}
	return b
}

// leave clears the tab and keeps it for the next test, or closes it if that fails.
func (b *tab) leave() {
	if err := b.forget(); err != nil {
		b.close()
		return
	}
	one.Lock()
	defer one.Unlock()
	one.idle = append(one.idle, b)
}

func (b *tab) forget() error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Navigate("about:blank")); err != nil {
		return err
	}
	for _, command := range []cdp.Command[cdp.Empty, cdp.Empty]{
		network.ClearBrowserCookies, network.ClearBrowserCache, page.ResetNavigationHistory,
	} {
		if _, err := chromedp.Call(ctx, command, cdp.Empty{}); err != nil {
			return err
		}
	}
	return nil
}

// hear records what goes wrong.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		b.said = append(b.said, text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.said = append(b.said, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			b.said = append(b.said, fmt.Sprint("console.error ", e.Args))
		}
	}
}

// wrong returns what went wrong since the last call.
func (b *tab) wrong() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.said
	b.said = nil
	return said
}
