package console_test

import (
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/browser"
)

var update = flag.Bool("update", false, "take the pictures in docs/ anew")

// picturesDir is where the pages of the documentation are.
const picturesDir = "../../docs"

// TestPictures takes the pictures of the documentation with -args -update; without, nothing is to be taken.
func TestPictures(t *testing.T) {
	if !*update {
		return
	}
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.world()
	time.Sleep(40 * time.Second) // until the small lines show something
	for _, dark := range []bool{false, true} {
		name := map[bool]string{false: "light", true: "dark"}[dark]
		p := r.signIn(browser.Options{Width: 1360, Height: 860, Dark: dark})
		p.Text(".queues tbody tr")
		p.Picture(filepath.Join(picturesDir, "console-overview-"+name+".png"))
		p.Fine()
	}
}
