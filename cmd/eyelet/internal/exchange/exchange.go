// Package exchange keeps what an application was sent, and what it answered.
package exchange

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
)

// Exchange is a request to an application and its response.
type Exchange struct {
	Request  *http.Request // without its body
	Status   int           // 0 without a response
	Header   http.Header   // of the response
	Body     []byte        // of the response: its first [MaxBody] bytes
	Length   int           // of the whole body, as far as it was read
	Err      error
	Finished time.Time
}

// MaxBody is how much of a response is kept, in bytes.
const MaxBody = 16 << 10

// maxEvents is how many events have exchanges; the oldest are dropped.
const maxEvents = 1000

// Log keeps the last exchange of each event. Its zero value is usable.
type Log struct {
	Header http.Header // is added to each request

	mu     sync.Mutex
	events []string
	last   map[string]*Exchange
}

// Of returns the last exchange of an event, if there was one.
func (l *Log) Of(event string) (e Exchange, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.last[event]; found != nil {
		return *found, true
	}
	return e, false
}

// Wrap returns a transport that keeps the exchanges of an event.
func (l *Log) Wrap(event string, next http.RoundTripper) http.RoundTripper {
	return transport{l, event, next}
}

type transport struct {
	log   *Log
	event string
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range t.log.Header {
		if name == "Host" {
			r.Host = values[0]
			continue
		}
		r.Header[name] = values
	}
	res, err := t.next.RoundTrip(r)
	e := &Exchange{Request: r, Err: err, Finished: time.Now()}
	if err == nil {
		e.Status, e.Header = res.StatusCode, res.Header
		res.Body = &body{res.Body, t.log, e}
	}
	t.log.keep(t.event, e)
	return res, err
}

func (l *Log) keep(event string, e *Exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[string]*Exchange{}
	}
	if l.last[event] == nil {
		l.events = append(l.events, event)
	}
	l.last[event] = e
	if len(l.events) > maxEvents {
		delete(l.last, l.events[0])
		l.events = l.events[1:]
	}
}

// body keeps what is read.
type body struct {
	io.ReadCloser
	log *Log
	of  *Exchange
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	b.of.Length += n
	b.of.Body = append(bytes.Clone(b.of.Body), p[:min(n, MaxBody-len(b.of.Body))]...)
	return n, err
}
