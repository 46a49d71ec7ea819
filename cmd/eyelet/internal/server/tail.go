package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
)

// The limits of the tail. A reader that is slower than the events loses lines and gets their
// number; it never delays the receiver.
const (
	tailBacklog      = 1024
	maxTailReaders   = 16
	tailHeartbeat    = 10 * time.Second
	tailWriteTimeout = 10 * time.Second // for one write to a slow reader
)

// tailHub distributes observations of the receiver to readers.
type tailHub struct {
	name    string // of the receiver among others; may be empty
	mu      sync.Mutex
	readers map[*tailReader]bool
	ended   chan struct{}
	end     sync.Once
}

type tailReader struct {
	lines chan opsapi.TailEntry
	lost  int // guarded by the tailHub's mutex
}

func newTailHub(name string) *tailHub {
	return &tailHub{name: name, readers: map[*tailReader]bool{}, ended: make(chan struct{})}
}

// close ends all readers, so that the server can stop.
func (f *tailHub) close() { f.end.Do(func() { close(f.ended) }) }

// observe sends an observation to all readers.
func (f *tailHub) observe(_ context.Context, o receiver.Observation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) == 0 {
		return
	}
	h := opsapi.TailEntry{
		Time: time.Now().UTC(), Receiver: f.name, Kind: string(o.Kind), Endpoint: o.Endpoint, Type: o.Type,
		ID: o.ID, Event: o.Event, Status: o.Status, Code: string(o.Code), Handler: o.Handler, Attempt: o.Attempt,
		Reason: o.Reason, Took: o.Took.Seconds(),
	}
	if o.Kind != receiver.KindDelivery {
		h.State = o.State.String()
	} else if o.Err != nil {
		h.Why = o.Err.Error()
	}
	for r := range f.readers {
		r.offer(h)
	}
}

// offer never blocks. The number of lost lines comes before the next line that fits.
func (r *tailReader) offer(h opsapi.TailEntry) {
	if r.lost > 0 {
		select {
		case r.lines <- opsapi.TailEntry{Time: h.Time, Receiver: h.Receiver, Kind: "lost", Lost: r.lost}:
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

// add adds a reader; nil if there are too many.
func (f *tailHub) add() *tailReader {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) >= maxTailReaders {
		return nil
	}
	r := &tailReader{lines: make(chan opsapi.TailEntry, tailBacklog)}
	f.readers[r] = true
	return r
}

func (f *tailHub) remove(r *tailReader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
}

// ServeHTTP sends lines of JSON until the reader leaves or the server stops. Empty lines as
// heartbeats detect readers that are gone.
func (f *tailHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reader := f.add()
	if reader == nil {
		http.Error(w, "too many readers", http.StatusServiceUnavailable)
		return
	}
	defer f.remove(reader)
	w.Header().Set("Content-Type", inspect.NDJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	beat := time.NewTicker(tailHeartbeat)
	defer beat.Stop()
	lines := json.NewEncoder(w)
	for err := control.Flush(); err == nil; err = control.Flush() {
		select {
		case h := <-reader.lines:
			_ = control.SetWriteDeadline(time.Now().Add(tailWriteTimeout)) // instead of the server's write timeout
			err = lines.Encode(h)
		case <-beat.C:
			_ = control.SetWriteDeadline(time.Now().Add(tailWriteTimeout))
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
