package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// logger is a server.Logger that passes on to a slog.Logger. What the server calls fatal it also keeps: the process is
// not the server's to end.
type logger struct {
	log *slog.Logger

	mu   sync.Mutex
	last string
}

func (l *logger) say(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "nats-server", "said", fmt.Sprintf(format, v...))
	}
}

// Noticef implements server.Logger, as do all below.
func (l *logger) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

func (l *logger) Warnf(format string, v ...any)  { l.say(slog.LevelWarn, format, v) }
func (l *logger) Errorf(format string, v ...any) { l.say(slog.LevelError, format, v) }
func (l *logger) Debugf(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l *logger) Tracef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

func (l *logger) Fatalf(format string, v ...any) {
	l.say(slog.LevelError, format, v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = fmt.Sprintf(format, v...)
}

// fatal is the last thing said to be fatal, if any.
func (l *logger) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		return nil
	}
	return errors.New(l.last)
}
