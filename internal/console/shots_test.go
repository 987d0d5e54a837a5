package console_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/console"
	"github.com/penstock/penstock/internal/test/browser"
)

func TestShots(t *testing.T) {
	dir := os.Getenv("SHOTS")
	if dir == "" {
		return
	}
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.world()
	time.Sleep(15 * time.Second)
	for _, width := range []int64{1440, 1024, 390} {
		for _, dark := range []bool{false, true} {
			p := r.signIn(browser.Options{Width: width, Height: 1000, Dark: dark})
			for _, path := range append(console.PagePaths(), "/apps/brandnew", "/queues/push", "/queues/webhooks") {
				at := samples.Replace(path)
				p.Go(r.url(at))
				if wide := browser.Value[int](p, "document.documentElement.scrollWidth"); int64(wide) > width {
					t.Errorf("%s at %d is %d wide", at, width, wide)
				}
				p.Picture(fmt.Sprintf("%s/%d-%v-%s.png", dir, width, dark, strings.ReplaceAll(at, "/", "_")))
			}
		}
	}
}
