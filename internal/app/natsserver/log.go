package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// logger is a server.Logger that writes to a slog.Logger. It keeps the last fatal message, because the server must not
// end the process.
type logger struct {
	log *slog.Logger

	mu   sync.Mutex
	last string
}

func (l *logger) write(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "nats server", "message", fmt.Sprintf(format, v...))
	}
}

// Noticef implements server.Logger, as do all below.
func (l *logger) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }

func (l *logger) Warnf(format string, v ...any)  { l.write(slog.LevelWarn, format, v) }
func (l *logger) Errorf(format string, v ...any) { l.write(slog.LevelError, format, v) }
func (l *logger) Debugf(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l *logger) Tracef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }

func (l *logger) Fatalf(format string, v ...any) {
	l.write(slog.LevelError, format, v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = fmt.Sprintf(format, v...)
}

// fatal returns the last fatal message as an error, or nil.
func (l *logger) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		return nil
	}
	return errors.New(l.last)
}
