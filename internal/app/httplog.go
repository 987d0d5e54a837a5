package app

import (
	stdlog "log"
	"log/slog"
	"strings"
)

// httpLog logs the messages of net/http's client, without what a receiver sent: that may echo a request with its
// secrets.
type httpLog struct{ log *slog.Logger }

func (h httpLog) Write(b []byte) (int, error) {
	message, _, _ := strings.Cut(strings.TrimSpace(string(b)), " starting with ")
	h.log.Debug("http client", "message", message)
	return len(b), nil
}

// QuietHTTP redirects the messages of net/http's client from standard error to log, for the whole process: the client
// uses the standard logger.
func QuietHTTP(log *slog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(httpLog{log})
}
