package sink

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// Output is a writer for several handlers. It writes whole lines. Lines that wait while another
// write is in progress are written together.
type Output struct {
	w    io.Writer
	most int           // bytes of lines that are written together
	gone chan struct{} // closed once the reader of the pipe is gone, which is final

	mu   sync.Mutex
	next *lines // which more lines may join

	turn sync.Mutex // held during a write; protects torn
	torn bool       // the last line was cut: the next one begins with a newline
}

// lines are written by one call. Its first handler makes the call, and the others wait for it.
type lines struct {
	text    []byte
	written sync.WaitGroup
	err     error
}

const (
	// maxTogether bounds lines that are written together to a file, in bytes.
	maxTogether = 64 << 10
	// pipeBuf is how many bytes Linux writes to a pipe in one piece (PIPE_BUF). Other writers of
	// the same pipe, such as the log, may write between the pieces of a longer text.
	pipeBuf = 4096
)

// NewOutput returns an Output over w.
func NewOutput(w io.Writer) *Output {
	o := &Output{w: w, most: maxTogether, gone: make(chan struct{})}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			o.most = pipeBuf
		}
	}
	return o
}

// Gone is closed once the reader of the pipe is gone.
func (o *Output) Gone() <-chan struct{} { return o.gone }

// write writes a line and returns once it is written, or with the error of the call that should
// have written it. It writes nothing once the reader is gone.
func (o *Output) write(line []byte) error {
	o.mu.Lock()
	if with := o.next; with != nil && len(with.text)+len(line) <= o.most {
		with.text = append(with.text, line...)
		o.mu.Unlock()
		with.written.Wait()
		return with.err
	}
	own := &lines{text: line}
	own.written.Add(1)
	o.next = own
	o.mu.Unlock()
	o.turn.Lock()
	defer o.turn.Unlock()
	o.mu.Lock()
	if o.next == own {
		o.next = nil
	}
	o.mu.Unlock()
	defer own.written.Done()
	own.err = o.print(own.text)
	return own.err
}

// print writes lines in one call.
func (o *Output) print(text []byte) error {
	select {
	case <-o.gone:
		return syscall.EPIPE
	default:
	}
	if o.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := o.w.Write(text)
	if n > 0 {
		o.torn = text[n-1] != '\n'
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
