package receiver

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/verify"
)

// newTestBody returns a body over r, with a budget of most bytes, and the use of the budget.
func newTestBody(r io.Reader, declared, limit, most int64) (b *body, used func() int64) {
	l := admission.NewLimiter(most, most-1, 1)
	permit := l.Admit("shop", netip.Addr{}, time.Now())
	return &body{
		from: io.NopCloser(r), declared: declared, limit: limit, permit: &permit,
	}, func() int64 { return l.Usage().Bodies }
}

// closer records that it was closed.
type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

// net/http looks for more of a body that is not closed.
func TestAWholeBodyIsClosed(t *testing.T) {
	t.Parallel()
	for text, whole := range map[string]bool{"four": true, "five!": true, "longer": false} {
		b, _ := newTestBody(nil, -1, 5, 1<<20)
		from := &closer{Reader: strings.NewReader(text)}
		b.from = from
		if _, err := b.read(); from.closed != whole || (err == nil) != whole {
			t.Errorf("%s: closed %t, %v", text, from.closed, err)
		}
	}
}

func TestBodyIsReadOnceAndWhole(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, firstBuffer - 1, firstBuffer, firstBuffer + 1, 100_000, 1 << 20} {
		for _, declared := range []int64{int64(size), -1} {
			want := make([]byte, size)
			for i := range want {
				want[i] = byte(rand.N(256))
			}
			for name, r := range map[string]io.Reader{
				"whole": bytes.NewReader(want), "halves": iotest.HalfReader(bytes.NewReader(want)),
				"late end": iotest.DataErrReader(bytes.NewReader(want)),
			} {
				b, used := newTestBody(r, declared, 1<<20, 4<<20)
				for range 2 {
					got, err := b.read()
					if err != nil || !bytes.Equal(got, want) {
						t.Fatalf("%s of %d: %d bytes, %v", name, size, len(got), err)
					}
				}
				if b.permit.Settle(); used() != 0 {
					t.Errorf("%s of %d: %d bytes are not released", name, size, used())
				}
			}
		}
	}
}

func TestBodyNeverCostsMuchMoreThanWhatWasSent(t *testing.T) {
	t.Parallel()
	for sent := 1; sent <= 1<<20; sent *= 3 {
		// The sender stops after sent bytes: the reader checks the budget while it waits for more.
		var now func() int64
		used := int64(-1)
		waiting := iotest.ErrReader(errors.New("cut"))
		look := readerFunc(func([]byte) (int, error) { used = now(); return 0, io.ErrUnexpectedEOF })
		b, now := newTestBody(io.MultiReader(strings.NewReader(strings.Repeat("x", sent)), look, waiting), 1<<20, 1<<20,
			4<<20)
		if _, err := b.read(); failureOf(err).code != codeBodyCut || b.buf != nil {
			t.Fatalf("%v, %d bytes", err, len(b.buf))
		}
		if used < int64(sent) || used > max(firstBuffer, 4*int64(sent))+1 {
			t.Errorf("%d bytes were sent, %d held", sent, used)
		}
		if b.permit.Settle(); now() != 0 {
			t.Errorf("%d bytes are not released", now())
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBodyErrorsHaveCodes(t *testing.T) {
	t.Parallel()
	for want, c := range map[verify.Code]struct {
		from        io.Reader
		limit, most int64
	}{
		codeBodyTooLarge: {strings.NewReader("123456"), 5, 1 << 20},
		codeBodyTimeout:  {iotest.ErrReader(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), 5, 1 << 20},
		codeBodyCut:      {iotest.ErrReader(io.ErrUnexpectedEOF), 5, 1 << 20},
		codeBusy:         {strings.NewReader("123456"), 1 << 20, 100},
	} {
		b, used := newTestBody(c.from, -1, c.limit, c.most)
		for range 2 {
			got, err := b.read()
			if got != nil || failureOf(err).code != want {
				t.Errorf("%q, %v, want %s", got, err, want)
			}
		}
		if b.permit.Settle(); used() != 0 {
			t.Errorf("%s: %d bytes are not released", want, used())
		}
	}
}

func TestIdleConnectionsDoNotUseUpTheBudget(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), func(c *Config) { c.BodyBudget = 1 << 20 })
	// Together they announce 32 times the budget.
	for range 32 {
		conn, err := net.Dial("tcp", s.srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, head("/webhooks/shop", "Content-Length: 1048576", "", "x")); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool { return s.rx.limiter.Usage().Bodies == 32*firstBuffer })
	if g := s.send(req{id: "honest", body: strings.Repeat("x", 100_000)}); g.status != 202 {
		t.Errorf("%+v", g)
	}
}

func TestBudgetIsOfUnverifiedBodiesOnly(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	runs, release := newCounter(), make(chan struct{})
	s := serve(t, p, func(c *Config) { c.BodyBudget = 1 << 20 }, countingAnswer(runs, release))
	s.sendAtOnce(1, req{id: "k1", body: strings.Repeat("x", 900_000)}, func() {
		runs.await(t)
		if used := s.rx.limiter.Usage().Bodies; used != 0 {
			t.Errorf("%d bytes of a verified body count", used)
		}
		close(release)
	})
	if g := s.send(req{id: "k2", body: strings.Repeat("x", 900_000)}); g.status != 204 {
		t.Errorf("%+v", g)
	}
}

// Outgrown buffers are reused, but a body never gets bytes of another one.
func TestBuffersOfBodiesAreNotShared(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 40 {
				want := bytes.Repeat([]byte{byte(16*i + n%16)}, 1+(n*7919)%100_000)
				length := int64(len(want))
				if n%2 == 0 {
					length = -1
				}
				b, _ := newTestBody(iotest.HalfReader(bytes.NewReader(want)), length, 1<<20, 1<<30)
				if got, err := b.read(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes: got %d, %v", len(want), len(got), err)
				}
			}
		})
	}
	wg.Wait()
	for size, want := range map[int64]int{0: -1, 1: -1, firstBuffer - 1: -1, firstBuffer: 0, firstBuffer + 1: -1,
		2 * firstBuffer: 1, firstBuffer << 13: 13, firstBuffer << 14: -1} {
		if got := bufferClass(size); got != want {
			t.Errorf("%d bytes have class %d, want %d", size, got, want)
		}
	}
}

// Middleware that runs before the receiver may read, close or replace the body.
func TestABodyThatWasConsumedIsReportedAsTheCause(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		before func(r *http.Request)
		reason string
	}{
		"read": {func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, "0 of 11 bytes were left"},
		"read in part": {func(r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 4)) },
			"7 of 11 bytes were left"},
		"closed": {func(r *http.Request) { _ = r.Body.Close() }, "it was closed"},
		"none":   {func(r *http.Request) { r.Body = http.NoBody }, "0 of 11 bytes were left"},
		"longer": {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("decompressed")) },
			"it is longer than its Content-Length of 11"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contracts(t, func(t *testing.T, p producer.Producer) {
				s := serve(t, p, nil, mustNotRun(t))
				next := s.srv.Config.Handler
				s.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					row.before(r)
					next.ServeHTTP(w, r)
				})
				g := s.send(req{id: "k1", body: "eleven byte"})
				wantProblem(t, g, 503, codeBodyConsumed)
				if !strings.Contains(g.body, "Reason: "+row.reason) || !strings.Contains(s.log.String(), row.reason) {
					t.Errorf("%s\n%s", g.body, s.log)
				}
			})
		})
	}
}

// A buffer that grew with the body would grow byte by byte beyond the declared length.
func TestABodyIsNotReadBeyondItsDeclaredLength(t *testing.T) {
	t.Parallel()
	for _, declared := range []int64{1, 100, firstBuffer, 3 * firstBuffer} {
		from := strings.NewReader(strings.Repeat("x", 32<<10))
		b, used := newTestBody(from, declared, 1<<21, 4<<20)
		if _, err := b.read(); failureOf(err).code != codeBodyConsumed {
			t.Errorf("declared %d: %v", declared, err)
		}
		if read := from.Size() - int64(from.Len()); read > declared+1 || used() > declared+1 {
			t.Errorf("declared %d: %d bytes were read, and %d are held", declared, read, used())
		}
		b.permit.Settle()
	}
}

func TestAnEmptyBodyWithoutALengthIsNamedInTheLogOfAMismatch(t *testing.T) {
	t.Parallel()
	s := serve(t, preset.GitHub("0123456789abcdef"), nil)
	next := s.srv.Config.Handler
	s.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		next.ServeHTTP(w, r)
	})
	g := s.send(req{id: "k1", body: "eleven byte", chunked: true,
		header: http.Header{"X-Hub-Signature-256": {"sha256=" + strings.Repeat("0", 64)}}})
	wantProblem(t, g, 401, codeSignatureInvalid)
	if !strings.Contains(s.log.String(), "did middleware read it?") {
		t.Errorf("the log has no hint: %s", s.log)
	}
}
