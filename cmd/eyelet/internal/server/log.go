package server

import (
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/eyelet-dev/eyelet/internal/usage"
)

// Log is a logger that knows whether its lines are lost. A failed write does not stop the server.
type Log struct {
	*slog.Logger
	to io.Writer
	// Level is the level of the lines that are written.
	Level slog.LevelVar
	lost  atomic.Pointer[error] // of the last write; nil when it succeeded
}

// NewLog returns a log that writes lines of a format, text or json, to w.
func NewLog(w io.Writer, format string, level slog.Level) *Log {
	l := &Log{to: w}
	l.Level.Set(level)
	o := &slog.HandlerOptions{Level: &l.Level}
	l.Logger = slog.New(slog.NewTextHandler(l, o))
	if format == "json" {
		l.Logger = slog.New(slog.NewJSONHandler(l, o))
	}
	return l
}

// Write implements io.Writer.
func (l *Log) Write(line []byte) (int, error) {
	n, err := l.to.Write(line)
	if err == nil {
		l.lost.Store(nil)
	} else {
		l.lost.Store(&err)
	}
	return n, err
}

// failing returns why lines are lost, or nil.
func (l *Log) failing() error {
	if err := l.lost.Load(); err != nil {
		return fmt.Errorf("the log cannot be written, and its lines are lost: %s; restart eyelet where it can",
			usage.Cause(*err))
	}
	return nil
}
