package cli

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"time"
)

// atAShell is the default patience.
var atAShell = patience

// TestMain gives the tests a home of their own, so that they do not touch the logins of the user, and more patience for
// a busy machine.
func TestMain(m *testing.M) {
	patience = time.Minute
	debug.SetGCPercent(400) // each of a thousand commands has a heap of a few MB, mostly for its parser
	home, err := os.MkdirTemp("", "penstock-home")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		if err := os.Setenv(name, home); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if err := os.RemoveAll(home); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
