package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
)

// The bounds of a feed. A reader that is slower than the events loses lines, and is told how many; it never
// slows the receiver down.
const (
	feedBacklog   = 1024
	feedReaders   = 16
	feedHeartbeat = 10 * time.Second
	feedPatience  = 10 * time.Second // with a reader that does not read
)

// happening is a line of the feed: a delivery that was answered, or an attempt of a handler. No payload is in
// it, and no text of an error.
type happening struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"` // delivery, attempt, hanging, or lost: so many lines
	Endpoint string    `json:"endpoint,omitempty"`
	Type     string    `json:"type,omitempty"`
	ID       string    `json:"id,omitempty"`
	Event    string    `json:"event,omitempty"`
	Status   int       `json:"status,omitempty"`
	Code     string    `json:"code,omitempty"`
	Handler  string    `json:"handler,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	State    string    `json:"state,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Took     float64   `json:"took,omitempty"` // seconds
	Lost     int       `json:"lost,omitempty"`
}

// feed hands what the receiver observes to whoever follows it.
type feed struct {
	mu      sync.Mutex
	readers map[*feedReader]bool
	ended   chan struct{}
	end     sync.Once
}

type feedReader struct {
	lines chan happening
	lost  int // guarded by the feed's mutex
}

func newFeed() *feed {
	return &feed{readers: map[*feedReader]bool{}, ended: make(chan struct{})}
}

// close ends all readers, so that the server can stop.
func (f *feed) close() { f.end.Do(func() { close(f.ended) }) }

// observe hands one observation to the readers.
func (f *feed) observe(_ context.Context, o receiver.Observation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) == 0 {
		return
	}
	h := happening{
		Time: time.Now().UTC(), Kind: string(o.Kind), Endpoint: o.Endpoint, Type: o.Type, ID: o.ID, Event: o.Event,
		Status: o.Status, Code: o.Code, Handler: o.Handler, Attempt: o.Attempt, Reason: o.Reason, Took: o.Took.Seconds(),
	}
	if o.Kind != "delivery" {
		h.State = o.State.String()
	}
	for r := range f.readers {
		r.offer(h)
	}
}

// offer never blocks. What was lost is told before the next line that fits.
func (r *feedReader) offer(h happening) {
	if r.lost > 0 {
		select {
		case r.lines <- happening{Time: h.Time, Kind: "lost", Lost: r.lost}:
			r.lost = 0
		default:
		}
	}
	if r.lost == 0 {
		select {
		case r.lines <- h:
			return
		default:
		}
	}
	r.lost++
}

// join adds a reader; nil when there are too many.
func (f *feed) join() *feedReader {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) >= feedReaders {
		return nil
	}
	r := &feedReader{lines: make(chan happening, feedBacklog)}
	f.readers[r] = true
	return r
}

func (f *feed) leave(r *feedReader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
}

// ServeHTTP sends lines of JSON until the reader leaves or the server stops. An empty line now and then finds
// out about readers that are gone.
func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reader := f.join()
	if reader == nil {
		http.Error(w, "too many readers follow already", http.StatusServiceUnavailable)
		return
	}
	defer f.leave(reader)
	w.Header().Set("Content-Type", inspect.NDJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	beat := time.NewTicker(feedHeartbeat)
	defer beat.Stop()
	lines := json.NewEncoder(w)
	for err := control.Flush(); err == nil; err = control.Flush() {
		select {
		case h := <-reader.lines:
			_ = control.SetWriteDeadline(time.Now().Add(feedPatience)) // else the server's own bound counts
			err = lines.Encode(h)
		case <-beat.C:
			_ = control.SetWriteDeadline(time.Now().Add(feedPatience))
			_, err = w.Write([]byte("\n"))
		case <-f.ended:
			return
		case <-r.Context().Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// observe hands what the receiver observes to the metrics and to those who follow.
func (s *server) observe(ctx context.Context, o receiver.Observation) {
	s.metrics.observe(ctx, o)
	s.feed.observe(ctx, o)
}

// changes notes in the log what a person had changed through the operations port.
func (s *server) changes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		s.log.Info("change through the operations port", "method", r.Method, "path", r.URL.Path, "status", seen.status)
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
