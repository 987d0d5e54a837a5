package cli

import (
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
)

// init creates a store once, shows it from then on, and refuses one with other settings. A second client that creates
// it at the same time does no harm.
func TestInit(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	at := "the store on " + server.Addr()
	expect(t, ExitUsage, "", "--redis", "init")
	expect(t, ExitUsage, "", "--redis", "init", "--redis", "mysql://localhost")
	expect(t, ExitUnreachable, "", "127.0.0.1:1", "init", "--redis", "redis://127.0.0.1:1")
	expect(t, ExitFailed, "", "must be from 1 to 4096", "init", "--redis", server.URL(), "--partitions=-1")
	expect(t, ExitFailed, "", "must be from 1 to 4096", "init", "--redis", server.URL(), "--partitions", "5000")
	expect(t, ExitFailed, "", "empty", "token", "init", "--redis", server.URL()) // nothing was made so far
	expect(t, ExitDone, at+" was created: 4 partitions", "--partitions 4", "init", "--redis", server.URL(),
		"--partitions", "4")
	for _, args := range [][]string{nil, {"--partitions", "4"}} {
		expect(t, ExitDone, at+" exists; nothing was changed: 4 partitions", "",
			append([]string{"init", "--redis", server.URL()}, args...)...)
	}
	expect(t, ExitFailed, "", "4 partitions, not 16", "init", "--redis", server.URL(), "--partitions", "16")

	other := redistest.New(t, redistest.Options{})
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { expect(t, ExitDone, "16 partitions", "", "init", "--redis", other.URL()) })
	}
	both.Wait()
	expect(t, ExitDone, "ps_", "operator", "token", "init", "--redis", other.URL())

	server.Client().Del(t.Context(), "ps{0}")
	expect(t, ExitFailed, "", "partitions", "init", "--redis", server.URL())
	expect(t, ExitFailed, "", "1 of 4 partitions are gone", "init", "--redis", server.URL(), "--partitions", "4")
}
