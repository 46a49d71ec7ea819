package receiver

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/verify"
)

// body reads the body of one request, once, under its limits. It is for one goroutine.
type body struct {
	from     io.ReadCloser
	w        http.ResponseWriter // of the connection
	limit    int64               // of the producer, in bytes
	declared int64               // Content-Length; -1 when unknown
	permit   *admission.Permit
	timeout  time.Duration

	buf  []byte
	part []byte // what came of a body that was not read whole
	err  error
	done bool
}

// firstBuffer is the size of the first buffer. A declared length costs nothing before its bytes
// arrive.
const firstBuffer = 4 << 10

// read returns the body. The first call reads it, later ones return the same bytes or error. A
// body that is too large, late, cut off or beyond the budget is an error; read never returns a
// part of one.
func (b *body) read() ([]byte, error) {
	if !b.done {
		_ = b.load()
	}
	return b.buf, b.err
}

// size is the length of the body in bytes: as read, else as declared; -1 if it is unknown.
func (b *body) size() int64 {
	if b.done && b.err == nil {
		return int64(len(b.buf))
	}
	return b.declared
}

func (b *body) load() error {
	b.done = true
	if b.buf, b.err = b.readAll(); b.err != nil {
		b.part, b.buf = b.buf, nil
	}
	return b.err
}

func (b *body) readAll() ([]byte, error) {
	if b.from == nil || b.from == http.NoBody || b.declared == 0 {
		return nil, b.changed(0)
	}
	b.setDeadline(time.Now().Add(b.timeout))
	var buf []byte
	for {
		if len(buf) == cap(buf) {
			var err error
			if buf, err = b.grow(buf); err != nil {
				return buf, err
			}
		}
		n, err := b.from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > b.limit:
			return buf, fail(codeBodyTooLarge, nil)
		case b.declared > 0 && int64(len(buf)) > b.declared:
			return buf, b.changed(len(buf))
		case err == io.EOF:
			b.setDeadline(time.Time{})
			_ = b.from.Close() // net/http would look for the rest of an open one
			return buf, b.changed(len(buf))
		case errors.Is(err, http.ErrBodyReadAfterClose):
			return buf, fail(codeBodyConsumed, verify.Public("it was closed"))
		case err != nil:
			return buf, bodyError(err)
		}
	}
}

// changed is the failure of a body that does not have its declared length: net/http reports
// bodies that arrive cut off, so code that ran before the receiver read or replaced this one.
func (b *body) changed(length int) error {
	if b.declared <= 0 || int64(length) == b.declared {
		return nil
	}
	what := fmt.Sprintf("%d of %d bytes were left", length, b.declared)
	if int64(length) > b.declared { // the rest is not read
		what = fmt.Sprintf("it is longer than its Content-Length of %d", b.declared)
	}
	return fail(codeBodyConsumed, verify.Public(what))
}

// setDeadline sets the read deadline of the connection. Writers without deadlines (in-process
// tests, some wrappers) leave the timeout to the server.
func (b *body) setDeadline(at time.Time) { _ = http.NewResponseController(b.w).SetReadDeadline(at) }

// grow doubles the buffer, up to the declared length or the limit and one byte to see the end or
// the excess. Other bodies reuse the outgrown buffers.
func (b *body) grow(buf []byte) ([]byte, error) {
	most := b.limit
	if b.declared >= 0 {
		most = min(most, b.declared)
	}
	size := min(max(2*int64(cap(buf)), firstBuffer), max(most, int64(len(buf)))+1)
	if !b.permit.Hold(size - int64(cap(buf))) {
		return buf, fail(codeBusy, errBudget)
	}
	bigger := takeBuffer(size)[:len(buf)]
	copy(bigger, buf)
	giveBuffer(buf)
	return bigger, nil
}

// buffers holds outgrown buffers by size: firstBuffer, twice that, and so on. Only the reading
// of bodies ever uses them.
var buffers [14]sync.Pool

// bufferClass returns the index of a size in buffers, or -1.
func bufferClass(size int64) int {
	class := bits.Len64(uint64(size/firstBuffer)) - 1
	if class < 0 || class >= len(buffers) || size != firstBuffer<<class {
		return -1
	}
	return class
}

func takeBuffer(size int64) []byte {
	if class := bufferClass(size); class >= 0 {
		if old, ok := buffers[class].Get().(*[]byte); ok {
			return *old
		}
	}
	return make([]byte, size)
}

func giveBuffer(buf []byte) {
	if class := bufferClass(int64(cap(buf))); class >= 0 {
		outgrown := buf
		buffers[class].Put(&outgrown)
	}
}

var (
	errBudget  = errors.New("the budget of unverified bodies is used up")
	errCutBody = errors.New("unexpected end of body")
)

// bodyError returns the failure of a body that did not arrive whole.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(codeBodyTimeout, err)
	case errors.As(err, &tooLarge):
		return fail(codeBodyTooLarge, err)
	}
	return fail(codeBodyCut, errors.Join(errCutBody, err))
}
