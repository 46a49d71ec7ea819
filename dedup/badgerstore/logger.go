package badgerstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// logger gives Badger's lines to slog and listens to those that are the only sign of a failure: a sync of the
// value log that failed, and a table that was left out for its checksum.
type logger struct {
	slog     *slog.Logger
	unsynced atomic.Pointer[string]
	skipped  atomic.Pointer[string]
}

// Errorf implements badger.Logger.
func (l *logger) Errorf(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	switch {
	case strings.Contains(text, "curlf sync"):
		l.unsynced.CompareAndSwap(nil, &text)
	case strings.HasPrefix(text, "Ignoring table"):
		l.skipped.CompareAndSwap(nil, &text)
	}
	l.log(slog.LevelError, text)
}

// Warningf implements badger.Logger.
func (l *logger) Warningf(format string, args ...any) {
	l.log(slog.LevelWarn, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Infof implements badger.Logger. What Badger finds worth telling is detail here.
func (l *logger) Infof(format string, args ...any) { l.debug(format, args) }

// Debugf implements badger.Logger.
func (l *logger) Debugf(format string, args ...any) { l.debug(format, args) }

func (l *logger) debug(format string, args []any) {
	if l.slog.Enabled(context.Background(), slog.LevelDebug) {
		l.log(slog.LevelDebug, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (l *logger) log(level slog.Level, text string) {
	l.slog.Log(context.Background(), level, "badger", "text", text)
}
