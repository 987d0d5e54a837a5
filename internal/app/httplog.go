package app

import (
	stdlog "log"
	"log/slog"
	"strings"
)

// httpLog passes on what net/http's client has to say, but not what a receiver sent: that may be
// anything, and echo a request with its secrets.
type httpLog struct{ log *slog.Logger }

func (h httpLog) Write(b []byte) (int, error) {
	said, _, _ := strings.Cut(strings.TrimSpace(string(b)), " starting with ")
	h.log.Debug("http client", "message", said)
	return len(b), nil
}

// QuietHTTP keeps the client from writing to standard error by itself. It is the process's: the client
// writes to the logger that all share.
func QuietHTTP(log *slog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(httpLog{log})
}
