package receiver

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// In each sampledFor, the first sampledLines of a kind are written one by one.
const (
	sampledLines = 10
	sampledFor   = time.Minute
)

// sampler limits log lines that clients cause, so that a busy client cannot fill the disk. It
// writes the first ten of each kind in a minute, and at the end of that minute one line with the
// number of the others. At level DEBUG it writes all of them. Metrics are not sampled.
type sampler struct {
	log *slog.Logger

	mu     sync.Mutex
	minute map[sampledKind]*sampledMinute
}

// sampledKind is what is counted together: lines with the same text about an endpoint, for the
// same code or reason, of which a line has at most one. These are closed sets, so clients cannot
// make kinds.
type sampledKind struct {
	text, endpoint string
	code           verify.Code
	reason         string
}

type sampledMinute struct {
	level slog.Level
	lines int
	end   *time.Timer
}

func newSampler(log *slog.Logger) *sampler {
	return &sampler{log: log, minute: map[sampledKind]*sampledMinute{}}
}

// write logs one line with the endpoint, the code or the reason, and the attributes; or it only
// counts the line.
func (s *sampler) write(ctx context.Context, level slog.Level, kind sampledKind, attrs ...slog.Attr) {
	if !s.log.Enabled(ctx, level) {
		return
	}
	if level > slog.LevelDebug && !s.first(kind, level) { //nolint:contextcheck // the minute outlasts the request
		level = slog.LevelDebug
	}
	s.log.LogAttrs(ctx, level, kind.text, append(kind.attrs(), attrs...)...)
}

// first counts a line and reports whether it is one of the first of its minute.
func (s *sampler) first(kind sampledKind, level slog.Level) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.minute[kind]
	if m == nil {
		m = &sampledMinute{level: level}
		m.end = time.AfterFunc(sampledFor, func() { s.summarize(kind, m) })
		s.minute[kind] = m
	}
	m.lines++
	return m.lines <= sampledLines
}

// summarize ends a minute: the next line of the kind is written again.
func (s *sampler) summarize(kind sampledKind, m *sampledMinute) {
	s.mu.Lock()
	if s.minute[kind] != m { // close was earlier
		s.mu.Unlock()
		return
	}
	delete(s.minute, kind)
	s.mu.Unlock()
	m.end.Stop()
	if more := m.lines - sampledLines; more > 0 {
		attrs := append(kind.attrs(), slog.Int("more", more), slog.Duration("within", sampledFor))
		s.log.LogAttrs(context.Background(), m.level, kind.text, attrs...)
	}
}

func (s *sampler) close() {
	s.mu.Lock()
	open := maps.Clone(s.minute)
	s.mu.Unlock()
	for kind, m := range open {
		s.summarize(kind, m)
	}
}

func (k sampledKind) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("endpoint", k.endpoint)}
	if k.code != "" {
		attrs = append(attrs, slog.String("code", string(k.code)))
	}
	if k.reason != "" {
		attrs = append(attrs, slog.String("reason", k.reason))
	}
	return attrs
}
