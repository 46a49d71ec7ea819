package kv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// logger forwards Badger's log lines to slog. It records those that are the only sign of a failure:
// of a table's checksum, a memory table, or a compaction.
type logger struct {
	slog       *slog.Logger
	spare      *spare // is notified of errors that exhaust file descriptors
	tables     *compactions
	fail       func(reason string, err error)
	skipped    atomic.Pointer[string]
	flushing   recurringError
	compacting recurringError
}

// recurringError is a line that Badger repeats while something fails.
type recurringError struct {
	mu         sync.Mutex
	text       string
	at, logged time.Time // the last time
}

// A failure is over after errorLasts without a repetition, and logged every errorLogEvery.
const (
	errorLasts    = 3 * time.Second
	errorLogEvery = 10 * time.Second
)

func (c *recurringError) note(text string) (log bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text, c.at = text, time.Now()
	if log = c.at.Sub(c.logged) >= errorLogEvery; log {
		c.logged = c.at
	}
	return log
}

func (c *recurringError) current() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < errorLasts {
		return errors.New(c.text)
	}
	return nil
}

// Errorf implements badger.Logger.
func (l *logger) Errorf(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	switch {
	case strings.HasPrefix(text, "Ignoring table"):
		l.skipped.CompareAndSwap(nil, &text)
	case strings.HasPrefix(text, "error flushing memtable"):
		// Badger retries. It may take a flush of MANIFEST for successful that has lost pages, or
		// append to half a record of it.
		if !exhausted(text) {
			l.fail("a memory table could not be written", errors.New(text))
		}
		l.spare.onLogLine(text)
		if !l.flushing.note(text) {
			return
		}
	}
	l.log(slog.LevelError, text)
}

// Warningf implements badger.Logger.
func (l *logger) Warningf(format string, args ...any) {
	l.tables.onLogLine(format, args)
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	if _, failure, ok := strings.Cut(text, "Compact FAILED with error: "); ok {
		failure, _, _ = strings.Cut(failure, ": {") // the long list of tables
		text = "compaction failed: " + failure
		if strings.Contains(failure, badger.ManifestFilename) && !exhausted(failure) {
			l.fail("the list of the tables could not be written", errors.New(text))
		}
		if !l.compacting.note(text) {
			return
		}
	}
	l.log(slog.LevelWarn, text)
}

// exhausted reports whether a line is about the lack of file descriptors, which passes.
func exhausted(text string) bool {
	return strings.Contains(text, syscall.EMFILE.Error()) || strings.Contains(text, syscall.ENFILE.Error())
}

// Infof implements badger.Logger. Badger's information is logged at debug level.
func (l *logger) Infof(format string, args ...any) { l.debug(format, args) }

// everyWrite are the formats of Badger's lines about each single write, which are not logged.
var everyWrite = []string{
	"writeRequests called. Writing to value log", "Writing to memtable", "Sending updates to subscribers",
	"%d entries written",
}

// Debugf implements badger.Logger.
func (l *logger) Debugf(format string, args ...any) {
	l.spare.onLogLine(format)
	l.tables.onLogLine(format, args)
	if !slices.Contains(everyWrite, format) {
		l.debug(format, args)
	}
}

func (l *logger) debug(format string, args []any) {
	if l.slog.Enabled(context.Background(), slog.LevelDebug) {
		l.log(slog.LevelDebug, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (l *logger) log(level slog.Level, text string) {
	l.slog.Log(context.Background(), level, "badger", "text", text)
}
