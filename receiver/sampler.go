package receiver

import (
	"context"
	"log/slog"
	"maps"
	"strings"
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
// make kinds. Refusals of known peers are kinds of their own.
type sampledKind struct {
	text, endpoint string
	code           verify.Code
	reason         string
	known          bool
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

// unknownLines bounds the lines about unknown paths in each sampledFor: clients can invent paths.
const unknownLines = 100

// unknownPaths logs the requests that no endpoint gets, so that a wrong URL at a sender is noticed:
// each path at most once a second, with the number of requests since its last line. Those that have
// no line are counted in one at the end of the minute. At level DEBUG each request has a line.
type unknownPaths struct {
	log *slog.Logger

	mu     sync.Mutex
	minute *unknownMinute // nil without a request
}

type unknownMinute struct {
	paths map[string]*unknownPath // at most unknownLines
	lines int
	more  int // requests to other paths
	end   *time.Timer
}

type unknownPath struct {
	last  time.Time
	count int // requests since then
}

const unknownText = "delivery to an unknown path"

// write logs a request to a path, or only counts it. attrs describe the request.
func (u *unknownPaths) write(ctx context.Context, path string, attrs ...slog.Attr) {
	level := slog.LevelInfo
	count := u.count(path) //nolint:contextcheck // the minute outlasts the request
	if count == 0 {
		level, count = slog.LevelDebug, 1
	}
	u.log.LogAttrs(ctx, level, unknownText, append(attrs, slog.Int("count", count))...)
}

// count counts a request, and returns the count of a line to write now; 0 is none.
func (u *unknownPaths) count(path string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := u.minute
	if m == nil {
		m = &unknownMinute{paths: map[string]*unknownPath{}}
		m.end = time.AfterFunc(sampledFor, func() { u.end(m) })
		u.minute = m
	}
	now, p := time.Now(), m.paths[path]
	if p == nil {
		if m.lines == unknownLines {
			m.more++
			return 0
		}
		p = &unknownPath{}
		m.paths[strings.Clone(path)] = p // a path in a request keeps all of its head
	}
	p.count++
	if m.lines == unknownLines || now.Sub(p.last) < time.Second {
		return 0
	}
	count := p.count
	p.last, p.count = now, 0
	m.lines++
	return count
}

// end ends a minute: its requests without a line are counted in one.
func (u *unknownPaths) end(m *unknownMinute) {
	u.mu.Lock()
	if m == nil || u.minute != m { // close was earlier
		u.mu.Unlock()
		return
	}
	u.minute = nil
	u.mu.Unlock()
	m.end.Stop()
	more := m.more
	for _, p := range m.paths {
		more += p.count
	}
	if more > 0 {
		u.log.Info(unknownText, "more", more, "within", sampledFor)
	}
}

func (u *unknownPaths) close() {
	u.mu.Lock()
	m := u.minute
	u.mu.Unlock()
	u.end(m)
}
