package sink

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/receiver"
)

// Stdout prints each event as a line of JSON.
type Stdout struct{ Out *Output }

// Output is a writer for several handlers: it writes one line at a time.
type Output struct {
	mu   sync.Mutex
	w    io.Writer
	torn bool          // the last line was cut: the next one begins with a newline
	gone chan struct{} // closed once the reader of the pipe is gone, which is final
}

// NewOutput returns an Output over w.
func NewOutput(w io.Writer) *Output { return &Output{w: w, gone: make(chan struct{})} }

// Gone is closed once the reader of the pipe is gone.
func (o *Output) Gone() <-chan struct{} { return o.gone }

// Write writes a line. It writes nothing once the reader is gone.
func (o *Output) Write(line []byte) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.gone:
		return 0, syscall.EPIPE
	default:
	}
	defer func() {
		if readerGone(err) {
			close(o.gone)
		}
	}()
	if o.torn {
		if _, err := o.w.Write([]byte("\n")); err != nil {
			return 0, err
		}
		o.torn = false
	}
	n, err = o.w.Write(line)
	o.torn = n > 0 && n < len(line)
	return n, err
}

// readerGone reports whether a write failed because the reader of the pipe is gone.
func readerGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// printed is the line of an event. A JSON payload is in data as it is, other text in text, and
// other bytes in body, in base64.
type printed struct {
	ID         string            `json:"id"`
	VendorID   string            `json:"vendor_id,omitempty"`
	Event      string            `json:"event"`
	Producer   string            `json:"producer"`
	Endpoint   string            `json:"endpoint"`
	Type       string            `json:"type"`
	Attempt    int               `json:"attempt"`
	Accepted   time.Time         `json:"accepted"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Data       json.RawMessage   `json:"data,omitempty"`
	Text       string            `json:"text,omitempty"`
	Body       []byte            `json:"body,omitempty"`
}

// Deliver implements [Sink].
func (s Stdout) Deliver(_ context.Context, ev receiver.Event[[]byte]) error {
	p := printed{
		ID: ev.ID, VendorID: ev.VendorID, Event: ev.EventID, Producer: ev.Producer, Endpoint: ev.Endpoint,
		Type: ev.Type, Attempt: ev.Attempt, Accepted: ev.Accepted.UTC(), Attributes: ev.Attributes,
	}
	switch {
	case json.Valid(ev.Body):
		p.Data = ev.Body
	case utf8.Valid(ev.Body):
		p.Text = string(ev.Body)
	default:
		p.Body = ev.Body
	}
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = s.Out.Write(append(line, '\n'))
	if readerGone(err) {
		return receiver.Postpone(0, err) // no attempt of this process can print it
	}
	return err
}

// Answer implements [Sink].
func (s Stdout) Answer(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
	return receiver.Response{Status: http.StatusNoContent}, errors.Join(s.Deliver(ctx, ev))
}
