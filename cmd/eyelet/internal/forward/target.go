package forward

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/internal/publicnet"
	"github.com/eyelet-dev/eyelet/verify"
)

// Defaults of [Config].
const (
	DefaultTimeout        = 30 * time.Second
	DefaultConns          = 64
	DefaultTotalRetryTime = 72 * time.Hour
	DefaultTerminalLimit  = 10
)

// The events of a target that is switched off are deferred for an eighth of the time that it has
// been off, within bounds: a short pause ends soon, and a long one costs little.
const (
	offPart        = 8
	offLeast       = 10 * time.Second
	LongestOffWait = 10 * time.Minute
)

const (
	maxPseudonym = 64     // characters of the pseudonym in Via
	maxHeld      = 10_000 // events whose Retry-After is remembered
)

// Config describes a target. [New] checks it.
type Config struct {
	// Name is the target's stable name, its key in State. Required.
	Name string
	// URL is where events go: of http or https. Credentials in it are HTTP Basic. Required.
	URL string
	// State keeps what is known about targets. Defaults to one without a file.
	State *State
	// Credentials returns the credentials for an attempt. After a 401 it is called once more with
	// refresh set, and the attempt is repeated. Defaults to no credentials and no repetition.
	Credentials func(ctx context.Context, refresh bool) (Credentials, error)
	// AllowHosts are other hosts ("hooks.example" or "hooks.example:8443") that a redirect may
	// name. They receive the credentials too. Defaults to none.
	AllowHosts []string
	// DenyPrivate refuses connections to private addresses, checked after name resolution. It
	// disables proxies, which would hide the address. Defaults to allowing them.
	DenyPrivate bool
	// Roots are the trusted certificate authorities. Defaults to the system's.
	Roots *x509.CertPool
	// Timeout bounds one attempt, redirects included. Defaults to 30 seconds.
	Timeout time.Duration
	// MaxConns bounds the connections to the target. Defaults to 64.
	MaxConns int
	// TotalRetryTime is how long after its acceptance an event may be retried: a Retry-After that
	// ends later makes the outcome Terminal. For an event that is already older, because its target
	// was off or because it was reopened, the time begins with the attempt. Defaults to 72 hours.
	TotalRetryTime time.Duration
	// TerminalLimit is the number of consecutive Terminal outcomes that switch the target off.
	// Defaults to 10.
	TerminalLimit int
	// OmitReplies leaves [Result.Reply] empty. Defaults to false.
	OmitReplies bool
	// Fields are header fields to forward beside those of [Event.Header]: names, or prefixes with
	// a star ("X-Shop-*"). Defaults to none.
	Fields []string
	// Via is the pseudonym in the field Via of every request (RFC 9110 section 7.6.3). It must be
	// unique among the hops, because a receiver detects loops by it. A token of at most 64
	// characters. Defaults to eyelet.
	Via string
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Credentials authenticate requests to the target.
type Credentials struct {
	// Signer signs every request (RFC 9421); nil signs none.
	Signer *verify.Signer
	// Authorization is the value of that field; empty sends none.
	Authorization verify.Secret
}

// Target delivers events to one URL.
type Target struct {
	cfg       Config   // with its defaults
	url       *url.URL // as configured, without credentials
	basic     verify.Secret
	fields    []fieldPattern
	transport *http.Transport
	held      holds
}

// New checks the configuration and returns the target. It opens no connection. Errors hold no URL.
func New(c Config) (*Target, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Fragment != "" ||
		u.Opaque != "" {
		return nil, errors.New("the target is not a URL of http or https")
	}
	if c.Name == "" {
		return nil, errors.New("the target has no name")
	}
	if c.Timeout < 0 || c.TotalRetryTime < 0 || c.MaxConns < 0 || c.TerminalLimit < 0 {
		return nil, errors.New("a time or number of the target is negative")
	}
	for _, host := range c.AllowHosts {
		if !isRedirectHost(host) {
			return nil, fmt.Errorf("the allowed host %q is not a name or an address with an optional port", host)
		}
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if c.DenyPrivate && err == nil && publicnet.Control("tcp", netip.AddrPortFrom(ip, 0).String(), nil) != nil {
		return nil, errors.New("the target is a private address, which deny_private refuses")
	}
	c = withDefaults(c)
	if !verify.IsToken(c.Via) || len(c.Via) > maxPseudonym {
		return nil, fmt.Errorf("the name in Via is not a token of at most %d characters", maxPseudonym)
	}
	fields, err := parseFields(c.Fields)
	if err != nil {
		return nil, err
	}
	t := &Target{cfg: c, fields: fields, transport: newTransport(c)}
	if u.User != nil {
		password, _ := u.User.Password()
		t.basic = verify.Secret("Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		u.User = nil
	}
	t.url = u
	digest := sha256.Sum256([]byte(c.URL))
	return t, c.State.register(c.Name, hex.EncodeToString(digest[:]))
}

// isRedirectHost reports whether a redirect can name the host, unlike a pattern or a URL.
func isRedirectHost(host string) bool {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	u, err := url.Parse("http://" + host)
	return err == nil && u.Host == host && u.Hostname() != "" && !strings.ContainsAny(host, "*,; ")
}

func withDefaults(c Config) Config {
	c.State = cmp.Or(c.State, NewState())
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxConns = cmp.Or(c.MaxConns, DefaultConns)
	c.TotalRetryTime = cmp.Or(c.TotalRetryTime, DefaultTotalRetryTime)
	c.TerminalLimit = cmp.Or(c.TerminalLimit, DefaultTerminalLimit)
	c.Via = cmp.Or(c.Via, "eyelet")
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Close closes idle connections.
func (t *Target) Close() error {
	t.transport.CloseIdleConnections()
	return nil
}

// Deliver makes one attempt. It returns when the response is complete, when the timeout or ctx
// ends, or at once if nothing is to be sent. An attempt that ends because ctx was cancelled is
// Transient and changes nothing in the State.
func (t *Target) Deliver(ctx context.Context, ev Event) Result {
	if ev.Key == "" {
		return Result{Outcome: Terminal, Err: errors.New("the event has no idempotency key")}
	}
	now := t.cfg.Now()
	known := t.cfg.State.get(t.cfg.Name) //nolint:contextcheck // it has its own time
	if known.Off {
		wait := offWait(now.Sub(known.Since))
		return Result{Outcome: Deferred, NotBefore: wait, Err: fmt.Errorf("%w: %s", ErrOff, known.Reason)}
	}
	if left := t.held.left(ev.ID, now); left > 0 {
		return Result{Outcome: Deferred, NotBefore: left, Err: errors.New("the target asked for more time")}
	}
	attempt, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	s := t.attempt(attempt, ev, t.destination(known))
	if s.status == 0 && errors.Is(ctx.Err(), context.Canceled) {
		return Result{Outcome: Transient, Err: s.err}
	}
	return t.evaluate(ev, s, t.cfg.Now()) //nolint:contextcheck // it has its own time
}

// offWait returns a random wait in the upper half of an eighth of the time off.
func offWait(off time.Duration) time.Duration {
	wait := min(max(off/offPart, offLeast), LongestOffWait)
	return wait - rand.N(wait/2+1)
}

// destination is the URL of the last 308 if it is still allowed, else the configured one.
func (t *Target) destination(known Status) *url.URL {
	if known.Moved != "" {
		if moved, err := url.Parse(known.Moved); err == nil && t.allowedRedirect(t.url, moved) {
			return moved
		}
	}
	return t.url
}

// holds keeps the Retry-After of events. A caller that stores the event waits anyway; holds defers
// the producer's own retries of a relayed delivery.
type holds struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// left returns how long the event must still wait.
func (h *holds) left(event string, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.until[event]
	if ok && !until.After(now) {
		delete(h.until, event)
	}
	return max(0, until.Sub(now))
}

// hold records a wait. At the limit it drops the waits that have passed, or else the one that ends
// first.
func (h *holds) hold(event string, until, now time.Time) {
	if event == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	if len(h.until) >= maxHeld {
		h.evict(now)
	}
	h.until[event] = until
}

func (h *holds) evict(now time.Time) {
	first := ""
	for event, until := range h.until {
		if !until.After(now) {
			delete(h.until, event)
		} else if first == "" || until.Before(h.until[first]) {
			first = event
		}
	}
	if len(h.until) >= maxHeld {
		delete(h.until, first)
	}
}
