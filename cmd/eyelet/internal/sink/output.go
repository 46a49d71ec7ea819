package sink

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// Output is a writer for several handlers. It writes whole lines, one with each call.
type Output struct {
	w    io.Writer
	gone chan struct{} // closed once the reader of the pipe is gone, which is final

	mu   sync.Mutex
	torn bool // the last line was cut: the next one begins with a newline
}

// NewOutput returns an Output over w.
func NewOutput(w io.Writer) *Output { return &Output{w: w, gone: make(chan struct{})} }

// Gone is closed once the reader of the pipe is gone.
func (o *Output) Gone() <-chan struct{} { return o.gone }

// write writes a line. It writes nothing once the reader is gone.
func (o *Output) write(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.gone:
		return syscall.EPIPE
	default:
	}
	if o.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := o.w.Write(line)
	if n > 0 {
		o.torn = line[n-1] != '\n'
	}
	if readerGone(err) {
		close(o.gone)
	}
	return err
}

// readerGone reports whether a write failed because the reader of the pipe is gone.
func readerGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
