// Package capture keeps the response of an http.Handler in memory.
package capture

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
)

// Writer is an http.ResponseWriter for one goroutine. It holds at most its limit, and it can
// neither be flushed nor hijacked, because nothing is sent before the handler has returned.
type Writer struct {
	limit  int
	outer  http.Header // of the response around it
	header http.Header
	status int // 0 until the header is written
	sent   http.Header
	body   []byte
	err    error
}

// New returns a writer for a body of at most limit bytes.
func New(limit int) *Writer { return &Writer{limit: limit, header: http.Header{}} }

// Inside makes the header fields of the response around it those that the handler finds. Call it
// before the handler runs.
func (w *Writer) Inside(outer http.Header) {
	w.outer, w.header = outer, outer.Clone()
	if w.header == nil {
		w.header = http.Header{}
	}
}

// Header implements [http.ResponseWriter].
func (w *Writer) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. It ignores informational responses, which are
// not stored, and every call after the first.
func (w *Writer) WriteHeader(status int) {
	informational := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if w.status == 0 && !informational {
		w.status, w.sent = status, w.header.Clone()
	}
}

// Write implements [http.ResponseWriter]. Beyond the limit it fails, and so does Result.
func (w *Writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.err == nil && len(b) > w.limit-len(w.body) {
		w.err = fmt.Errorf("the response has more than %d bytes", w.limit)
	}
	if w.err != nil {
		return 0, w.err
	}
	w.body = append(w.body, b...)
	return len(b), nil
}

// FlushError implements the interface of [http.ResponseController]. It always fails.
func (w *Writer) FlushError() error { return notSupported("flushed") }

// Hijack implements [http.Hijacker]. It always fails.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, notSupported("hijacked")
}

func notSupported(what string) error {
	return fmt.Errorf("the response cannot be %s, because it is stored before it is sent: %w",
		what, http.ErrNotSupported)
}

// Status is the status as written so far; 0 for none.
func (w *Writer) Status() int { return w.status }

// Result returns what was written, without the fields that the handler left as it found them. The
// status is 0 if nothing was. Without a Content-Type, it is that of net/http, which reads it from
// the body.
func (w *Writer) Result() (status int, header http.Header, body []byte, err error) {
	if header = w.sent; header == nil {
		header = w.header
	}
	if _, set := header["Content-Type"]; !set && len(w.body) > 0 {
		header.Set("Content-Type", http.DetectContentType(w.body))
	}
	if had := w.outer["Set-Cookie"]; len(had) > 0 && len(header["Set-Cookie"]) > len(had) {
		header["Set-Cookie"] = header["Set-Cookie"][len(had):] // the handler's own
	}
	maps.DeleteFunc(header, func(name string, values []string) bool {
		had, ok := w.outer[name]
		return ok && name != "Content-Type" && slices.Equal(values, had)
	})
	return w.status, header, w.body, w.err
}
