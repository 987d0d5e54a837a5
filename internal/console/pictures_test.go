package console_test

import (
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/browser"
)

var update = flag.Bool("update", false, "take the pictures in docs/ again")

// picturesDir is the directory of the documentation.
const picturesDir = "../../docs"

// TestPictures takes the pictures of the documentation if run with -args -update.
func TestPictures(t *testing.T) {
	if !*update {
		return
	}
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.world()
	time.Sleep(40 * time.Second) // until the sparklines have values
	for _, dark := range []bool{false, true} {
		name := map[bool]string{false: "light", true: "dark"}[dark]
		p := r.signIn(browser.Options{Width: 1360, Height: 860, Dark: dark})
		p.Text(".queues tbody tr")
		p.Picture(filepath.Join(picturesDir, "console-overview-"+name+".png"))
		p.Fine()
	}
}
