package receiver

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/internal/nearest"
)

// unknownLines bounds the lines about unknown paths in each sampledFor: clients can invent paths.
const unknownLines = 100

// maxLoggedPath bounds the logged path of a request, in bytes.
const maxLoggedPath = 128

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

// logUnknown logs a request to a path without an endpoint. The query is not logged, because it may
// hold a credential.
func (rx *Receiver) logUnknown(r *http.Request, at target) {
	if !rx.log.Enabled(r.Context(), slog.LevelInfo) {
		return
	}
	path := at.path[:min(len(at.path), maxLoggedPath)]
	attrs := append(requestAttrs(r, clientAddr(r, rx.cfg.TrustedProxies), path),
		slog.String("code", string(codeNotFound)), slog.Int64("size", r.ContentLength),
		slog.Any("nearest", nearestEndpoint{rx, path}))
	rx.unknown.write(r.Context(), path, attrs...)
}

// nearestEndpoint is the path of the endpoint that a path probably means. It is searched only if
// its line is written.
type nearestEndpoint struct {
	rx   *Receiver
	path string
}

// LogValue implements slog.LogValuer. An endpoint whose name ends the path is the nearest.
func (n nearestEndpoint) LogValue() slog.Value {
	best, least := "", -1
	for name := range n.rx.endpoints {
		distance := 0
		if !strings.HasSuffix(n.path, "/"+name) {
			distance = 1 + nearest.Distance(n.path, webhooksPath+name)
		}
		if least < 0 || distance < least || distance == least && name < best {
			best, least = name, distance
		}
	}
	return slog.StringValue(webhooksPath + best)
}
