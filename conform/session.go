package conform

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// session is what the checks of a run share.
type session struct {
	o        Options
	p        *Profile
	began    time.Time
	url      *url.URL // of the target; nil for a producer
	key      signer   // of the profile; nil without RFC 9421
	foreign  signer   // another key for the same algorithm
	sink     *sink    // where a producer or an intermediary sends; nil for a consumer
	requests atomic.Int64

	provoked sync.Once

	mu      sync.Mutex
	random  *rand.Rand
	n       int
	seen    []*answer        // to requests that are well-formed HTTP
	refused []string         // identifiers of events that were refused
	most    map[string]bound // by the identifiers of events that were handled
	moved   time.Duration    // of the program's clock
	yielded time.Duration    // to a program that limits the rate of requests
}

func (s *session) open(ctx context.Context) (err error) {
	s.most = map[string]bound{}
	s.random = rand.New(rand.NewPCG(s.o.Seed, 1)) //nolint:gosec // reproducible identifiers, no secrets
	if s.p.Scheme == "rfc9421" {
		if s.key, s.foreign, err = s.p.signers(); err != nil {
			return err
		}
		if s.foreign == nil && s.o.Role != Producer {
			return errors.New("the key of the profile is a public one: deliveries are signed with the private one")
		}
	}
	if s.o.Role != Consumer {
		s.sink, err = listen(ctx, s.o.Listen, s.p.keyOf)
	}
	return err
}

func (s *session) close() {
	if s.sink != nil {
		s.sink.close()
	}
}

// id returns a new identifier, which is a UUID: consumers may insist on one. Those of two runs with
// one seed differ, as consumers remember them.
func (s *session) id() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	ms := s.began.UnixMilli()
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x",
		ms>>16, ms&0xffff, s.n>>12&0xfff, s.n&0xfff, s.random.Uint64()>>16)
}

func (s *session) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(1_000_000)
}

// now is the time of the program.
func (s *session) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.moved)
}

// Exchange is a request with its response, as .http text.
type Exchange struct {
	Request  string `json:"request"`
	Response string `json:"response"`
}

// maxExchange is how many bytes of a message are in the report, and maxExchanges how many of a
// check.
const (
	maxExchange  = 4 << 10
	maxExchanges = 12
)

// answer is a response. Its status is zero if there was none: then err says why.
type answer struct {
	*http.Response
	status int
	body   []byte
	err    error
	closed bool // the connection is closed after it
	took   time.Duration
}

func (a *answer) String() string {
	if a.status == 0 {
		return "no response: " + a.err.Error()
	}
	return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
}

func (s *session) accepts(a *answer) bool { return slices.Contains(s.p.Accepted, a.status) }

// is reports whether the status is one of these.
func (a *answer) is(statuses ...int) bool { return slices.Contains(statuses, a.status) }

// field returns the value of a field, or "" if there was no response.
func (a *answer) field(name string) string {
	if a.Response == nil {
		return ""
	}
	return a.Header.Get(name)
}

// dial connects with the target.
func (s *session) dial(ctx context.Context) (net.Conn, error) {
	port := cmp.Or(s.url.Port(), map[string]string{"http": "80", "https": "443"}[s.url.Scheme])
	address := net.JoinHostPort(s.url.Hostname(), port)
	d := net.Dialer{Timeout: s.p.Timeout}
	if s.url.Scheme == "https" {
		secure := tls.Dialer{NetDialer: &d, Config: &tls.Config{ServerName: s.url.Hostname()}}
		return secure.DialContext(ctx, "tcp", address)
	}
	return d.DialContext(ctx, "tcp", address)
}

// send sends a delivery on a connection of its own.
func (t *run) send(ctx context.Context, d *delivery) *answer {
	for {
		a := t.sendParts(ctx, d.bytes())
		t.mu.Lock()
		t.seen = append(t.seen, a)
		t.mu.Unlock()
		if !t.yields(ctx, a) {
			return a
		}
	}
}

// maxYield is how long a run waits at most for a program that limits the rate of requests.
const maxYield = 5 * time.Minute

// yields waits as long as a program asks for that limits the rate of requests. It reports whether
// the request is sent again then.
func (s *session) yields(ctx context.Context, a *answer) bool {
	seconds, err := strconv.Atoi(a.field("Retry-After"))
	if err != nil || seconds < 1 || seconds > int(maxYield/time.Second) || !a.is(http.StatusTooManyRequests) {
		return false
	}
	wait := time.Duration(seconds) * time.Second
	s.mu.Lock()
	s.yielded += wait
	isEnough := s.yielded > maxYield
	s.mu.Unlock()
	if !isEnough {
		sleep(ctx, wait)
	}
	return !isEnough && ctx.Err() == nil
}

// sleep waits, at most until the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// answers returns the responses to well-formed requests so far.
func (s *session) answers() []*answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// sendParts sends the parts of a request until a final response comes. A nil part shuts the sending
// half of the connection.
func (t *run) sendParts(ctx context.Context, parts ...[]byte) *answer {
	began := time.Now()
	a := t.exchange(ctx, parts)
	a.took = time.Since(began)
	t.note(string(bytes.Join(parts, nil)), a)
	return a
}

// connect connects with the target, until the end of ctx or the timeout of the profile.
func (t *run) connect(ctx context.Context) (conn net.Conn, closeConn func(), err error) {
	t.requests.Add(1)
	if conn, err = t.dial(ctx); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	closeConn = func() {
		stop()
		_ = conn.Close() // nothing is left to send
	}
	if err = conn.SetDeadline(time.Now().Add(t.p.Timeout)); err != nil {
		closeConn()
	}
	return conn, closeConn, err
}

func (t *run) exchange(ctx context.Context, parts [][]byte) *answer {
	conn, closeConn, err := t.connect(ctx)
	if err != nil {
		return &answer{err: err}
	}
	defer closeConn()
	written := make(chan error, 1)
	go func() { written <- t.write(conn, parts) }()
	in := readerOf(conn)
	a := readAnswer(in)
	if a.status != 0 {
		a.closed = a.closed || t.lingers && closes(conn, in)
		return a
	}
	select {
	case err := <-written:
		a.err = cmp.Or(err, a.err)
	default:
	}
	return a
}

func (t *run) write(conn net.Conn, parts [][]byte) (err error) {
	for i, part := range parts {
		if i > 0 && t.gate != nil {
			<-t.gate
		}
		if half, ok := conn.(interface{ CloseWrite() error }); part == nil && ok {
			err = half.CloseWrite()
		} else {
			_, err = conn.Write(part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxResponse bounds all responses on a connection together, in bytes.
const maxResponse = 2 << 20

func readerOf(conn net.Conn) *bufio.Reader { return bufio.NewReader(io.LimitReader(conn, maxResponse)) }

// closes reports whether the other side closes the connection within a second.
func closes(conn net.Conn, in *bufio.Reader) bool {
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return true
	}
	_, err := in.ReadByte()
	var timeout net.Error
	return err != nil && (!errors.As(err, &timeout) || !timeout.Timeout())
}

// readAnswer reads the final response to a request, which is not HEAD.
func readAnswer(in *bufio.Reader) *answer {
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return &answer{err: err}
		}
		if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read
		return &answer{Response: resp, status: resp.StatusCode, body: body, err: err, closed: resp.Close}
	}
}

// note keeps an exchange for the report.
func (t *run) note(request string, a *answer) {
	response := a.String()
	if a.Response != nil {
		var b strings.Builder
		fmt.Fprintf(&b, "HTTP/1.1 %s\r\n", a.Status)
		_ = a.Header.Write(&b) // to memory
		response = b.String() + "\r\n" + string(a.body)
	}
	t.keep(Exchange{request, response})
}

// keep keeps the last exchanges.
func (t *run) keep(e Exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.exchanges = append(t.exchanges, Exchange{short(t.withoutSecret(e.Request)), short(t.withoutSecret(e.Response))})
	if len(t.exchanges) > maxExchanges {
		t.exchanges = t.exchanges[1:]
	}
}

func short(text string) string {
	if len(text) > maxExchange {
		return fmt.Sprintf("%s\n[%d bytes more]", strings.ToValidUTF8(text[:maxExchange], "?"), len(text)-maxExchange)
	}
	return strings.ToValidUTF8(text, "?")
}

// withoutSecret hides the secrets of the profile, and the parts of tokens that are sent.
func (s *session) withoutSecret(text string) string {
	var pairs []string
	for _, hidden := range s.p.hidden() {
		pairs = append(pairs, hidden, "[secret]")
	}
	octets, _ := s.p.secret() // profiles with a malformed one are not read
	if token, n := string(octets), len(octets); s.p.Scheme == "bearer" && n > spoiled {
		pairs = append(pairs, token[:n-spoiled], "[most of a secret]", token[:n/2], "[half of a secret]")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// accepted sends a delivery that must be accepted: the control of a check that something is
// refused.
func (t *run) accepted(ctx context.Context, d *delivery) (*answer, error) {
	a := t.send(ctx, d)
	for end := time.Now().Add(maxBusy); a.is(http.StatusServiceUnavailable) && time.Now().Before(end); {
		time.Sleep(maxBusy / 50) // it starts, or is busy with the check before
		a = t.send(ctx, d)
	}
	if !t.accepts(a) {
		return a, notJudged("a delivery as the profile describes it got %s", a)
	}
	return a, nil
}

// maxBusy is how long a program may be busy when a check begins.
const maxBusy = 10 * time.Second

// once checks that the event was handled once, if that can be seen.
func (t *run) once(ctx context.Context, id string) error {
	if t.p.Effects == nil {
		return nil
	}
	n, err := t.settled(ctx, id, 1)
	if err == nil && n == 0 {
		err = notJudged("the event %s was accepted, but is not among the effects", id)
	}
	return cmp.Or(err, wrongIf(n > 1, "the event %s was handled %d times", id, n))
}

// bound is how often an event may be handled, by the end of the check that sent it.
type bound struct {
	check *check
	n     int
}

// settled waits until an event was handled n times, at most as long as handling takes, and then a
// little longer for one time too many. It returns how often it was handled; tardy looks once more.
func (t *run) settled(ctx context.Context, id string, n int) (int, error) {
	t.mu.Lock()
	t.most[id] = bound{t.check, n}
	t.mu.Unlock()
	_, _ = t.reached(ctx, id, n) // it is looked at once more
	sleep(ctx, min(t.p.Settle/4, 200*time.Millisecond))
	return t.effectsOf(ctx, id)
}

// reached waits until an event was handled n times, at most as long as handling takes.
func (t *run) reached(ctx context.Context, id string, n int) (got int, err error) {
	for end := time.Now().Add(t.p.Settle); ; sleep(ctx, effectPause) {
		got, err = t.effectsOf(ctx, id)
		if err == nil && got >= n || time.Now().After(end) || ctx.Err() != nil {
			return got, err
		}
	}
}

// effectPause is the time between two looks at the effects.
const effectPause = 20 * time.Millisecond

// tardy lets checks fail that hold, but whose events were handled too often when all of them had
// time.
func (s *session) tardy(ctx context.Context, results map[*check]Result) {
	if len(s.most) == 0 {
		return
	}
	sleep(ctx, s.p.Settle)
	text, err := s.effects(ctx)
	if err != nil {
		return // the checks say so
	}
	for id, most := range s.most {
		c, n := most.check, countOf(text, id)
		r := results[c]
		if r.Verdict != Holds || n <= most.n || c.phase == lastPhase {
			continue
		}
		r.fails(c, fmt.Sprintf("the event %s was handled %d times in the end", id, n))
		if allAttempts()[c.number] != nil { // any duplicate may be handled again, not only an odd one
			r.Verdict, r.Right, r.Cure = NotJudged, "", ""
		}
		results[c] = r
	}
	clear(s.most)
}

// effectsOf returns how often an event was handled so far.
func (s *session) effectsOf(ctx context.Context, id string) (int, error) {
	text, err := s.effects(ctx)
	if err != nil {
		return 0, notJudged("the effects cannot be read: %v", err)
	}
	return countOf(text, id), nil
}

// countOf returns how many elements of a JSON array, or lines of any other text, have an id.
func countOf(text []byte, id string) (n int) {
	var effects []json.RawMessage
	if json.Unmarshal(text, &effects) != nil {
		for line := range bytes.Lines(text) {
			effects = append(effects, line)
		}
	}
	for _, effect := range effects {
		if bytes.Contains(effect, []byte(id)) {
			n++
		}
	}
	return n
}

// effects returns what was handled so far.
func (s *session) effects(ctx context.Context) ([]byte, error) {
	e := s.p.Effects
	switch {
	case e.File != "":
		text, err := os.ReadFile(e.File)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return text, err
	case e.Command != "":
		return s.command(ctx, e.Command)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Timeout: s.p.Timeout}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxEffects))
}

// maxEffects bounds the response with the effects, in bytes.
const maxEffects = 64 << 20

// maxCommand is how long a command of the profile may take.
const maxCommand = time.Minute

// command runs a command of the profile and returns its output. Programs that it leaves in the
// background keep running: what they write goes to files, which need no end.
func (s *session) command(ctx context.Context, text string, env ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxCommand)
	defer cancel()
	dir, err := os.MkdirTemp("", "conform-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the folder for temporary files
	const toFiles = `exec >"$0/out" 2>"$0/err"` + "\n"
	cmd := exec.CommandContext(ctx, "sh", "-c", toFiles+text, dir) //nolint:gosec // its user wrote the profile
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, "err")) // it need not say more
		return nil, fmt.Errorf("the command %q of the profile: %w: %s", text, err, short(string(said)))
	}
	return os.ReadFile(filepath.Join(dir, "out"))
}
