package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// logger gives Badger's lines to slog and listens to those that are the only sign of a failure: a sync of the
// value log that failed, a table that was left out for its checksum, a memory table or a compaction that Badger
// cannot write and tries again and again.
type logger struct {
	slog       *slog.Logger
	spare      *spare // listens too
	unsynced   atomic.Pointer[string]
	skipped    atomic.Pointer[string]
	flushing   recurringError
	compacting recurringError
}

// recurringError is a line that Badger repeats as long as something fails.
type recurringError struct{ newest atomic.Pointer[errorLine] }

type errorLine struct {
	text string
	at   time.Time
	told time.Time // when the log had it
}

// The times of complaints: after how long without one the failure is over, and how often the log has one.
const (
	errorLasts    = 3 * time.Second
	errorLogEvery = 10 * time.Second
)

// note keeps the line. It reports whether the log should have it.
func (c *recurringError) note(text string) bool {
	next := &errorLine{text: text, at: time.Now()}
	old := c.newest.Load()
	tell := old == nil || next.at.Sub(old.told) >= errorLogEvery
	if next.told = next.at; !tell {
		next.told = old.told
	}
	c.newest.Store(next)
	return tell
}

// current returns what fails; nil when nothing does.
func (c *recurringError) current() error {
	if n := c.newest.Load(); n != nil && time.Since(n.at) < errorLasts {
		return errors.New(n.text)
	}
	return nil
}

// Errorf implements badger.Logger.
func (l *logger) Errorf(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	switch {
	case strings.Contains(text, "curlf sync"):
		l.unsynced.CompareAndSwap(nil, &text)
	case strings.HasPrefix(text, "Ignoring table"):
		l.skipped.CompareAndSwap(nil, &text)
	case strings.HasPrefix(text, "error flushing memtable"):
		l.spare.onLogLine(text)
		if !l.flushing.note(text) {
			return
		}
	}
	l.log(slog.LevelError, text)
}

// Warningf implements badger.Logger.
func (l *logger) Warningf(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	if _, failure, ok := strings.Cut(text, "Compact FAILED with error: "); ok {
		failure, _, _ = strings.Cut(failure, ": {") // what it would have compacted, which is long
		if text = "compaction failed: " + failure; !l.compacting.note(text) {
			return
		}
	}
	l.log(slog.LevelWarn, text)
}

// Infof implements badger.Logger. What Badger finds worth telling is detail here.
func (l *logger) Infof(format string, args ...any) { l.debug(format, args) }

// Debugf implements badger.Logger.
func (l *logger) Debugf(format string, args ...any) {
	l.spare.onLogLine(format)
	l.debug(format, args)
}

func (l *logger) debug(format string, args []any) {
	if l.slog.Enabled(context.Background(), slog.LevelDebug) {
		l.log(slog.LevelDebug, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (l *logger) log(level slog.Level, text string) {
	l.slog.Log(context.Background(), level, "badger", "text", text)
}
