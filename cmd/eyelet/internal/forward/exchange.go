package forward

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// response is what an attempt saw. Without a status nobody knows the outcome, and err says why.
type response struct {
	status      int
	retryAfter  []string
	sunset      time.Time
	contentType string
	body        []byte
	moved       *url.URL // where a 308 of the stored target points
	ours        bool     // nothing came of it for a reason of our own
	err         error
}

// attempt sends the event, follows a 307 where it may, and tries once more with fresh credentials after a 401.
func (t *Target) attempt(ctx context.Context, ev Event, to *url.URL) response {
	creds, err := t.credentials(ctx, false)
	if err != nil {
		return response{ours: true, err: fmt.Errorf("credentials: %w", err)}
	}
	refreshed := t.cfg.Credentials == nil
	for followed := 0; ; {
		s, header := t.exchange(ctx, ev, to, creds)
		switch {
		case s.status == http.StatusUnauthorized && !refreshed:
			refreshed = true
			if creds, err = t.credentials(ctx, true); err != nil {
				return response{ours: true, err: fmt.Errorf("the target answered 401, and there are no fresh credentials: %w", err)}
			}
		case s.status == http.StatusTemporaryRedirect, s.status == http.StatusPermanentRedirect:
			next, err := t.redirectTarget(to, header)
			if err != nil || followed == maxRedirects {
				s.err = fmt.Errorf("the target answered %d, which cannot be followed: %w", s.status, cmp.Or(err, errManyRedirects))
				return s
			}
			if s.status == http.StatusPermanentRedirect && followed == 0 {
				s.moved = next
				return s
			}
			to, followed = next, followed+1 // behind a 307 nothing is for good
		default:
			return s
		}
	}
}

var errManyRedirects = errors.New("there are too many of them")

func (t *Target) credentials(ctx context.Context, refresh bool) (Credentials, error) {
	var c Credentials
	var err error
	if t.cfg.Credentials != nil {
		c, err = t.cfg.Credentials(ctx, refresh)
	}
	c.Authorization = cmp.Or(c.Authorization, t.basic)
	return c, err
}

// exchange sends one request and reads the whole response. A response that is cut is an error: nobody knows
// the outcome (section 9.3 of the draft).
func (t *Target) exchange(ctx context.Context, ev Event, to *url.URL, creds Credentials) (response, http.Header) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(ev.Body))
	if err != nil {
		return response{ours: true, err: errors.New("the target is no URL")}, nil
	}
	req.Header = t.header(ev, to, labelOf(creds))
	if creds.Authorization != "" {
		req.Header.Set("Authorization", string(creds.Authorization))
	}
	if creds.Signer != nil {
		if err := creds.Signer.Sign(req, ev.Body, t.cfg.Now()); err != nil {
			return response{ours: true, err: fmt.Errorf("the request cannot be signed: %w", err)}, nil
		}
	}
	res, err := t.transport.RoundTrip(req)
	if err != nil {
		return response{err: fmt.Errorf("no answer from the target: %w", redactError(err))}, nil
	}
	defer res.Body.Close() //nolint:errcheck // what was wanted of it was read
	if res.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the connection itself, which no context ends.
		return response{err: errors.New("the target switched protocols (101), which nobody asked for")}, nil
	}
	return read(res), res.Header
}

// read reads a response to its end, or to its bound.
func read(res *http.Response) response {
	var kept bytes.Buffer
	n, err := io.Copy(&kept, io.LimitReader(res.Body, MaxResponse+1))
	if err == nil && n > MaxResponse {
		kept = bytes.Buffer{}
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxDiscarded))
	}
	if err != nil {
		return response{err: fmt.Errorf("the target's response was cut, and its outcome is unknown: %w", redactError(err))}
	}
	s := response{status: res.StatusCode, retryAfter: res.Header.Values("Retry-After"), sunset: parseSunset(res.Header.Values("Sunset"))}
	if res.Header.Get("Content-Encoding") == "" && kept.Len() > 0 {
		s.body, s.contentType = kept.Bytes(), res.Header.Get("Content-Type")
	}
	return s
}

// redactError takes what the target wrote out of an error of net/http: it may be our own request, with its URL.
func redactError(err error) error {
	var known net.Error
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &known) || errors.As(err, &certificate) {
		return err
	}
	var line textproto.ProtocolError
	text, _, quotes := strings.Cut(err.Error(), `"`)
	switch {
	case errors.As(err, &line):
		return errors.New("the response is malformed")
	case quotes:
		return errors.New(strings.TrimSpace(text))
	}
	return err
}

// maxRedirects is how many 307 one attempt follows.
const maxRedirects = 3

// maxLocation bounds a URL that a target names, in bytes.
const maxLocation = 8 << 10

// redirectTarget returns where a 307 or 308 points, when we may go there: an absolute URL of http or https without
// credentials, on the same host or one that the operator allowed, and never from https to http.
func (t *Target) redirectTarget(from *url.URL, header http.Header) (*url.URL, error) {
	lines := header.Values("Location")
	if len(lines) != 1 || lines[0] == "" || len(lines[0]) > maxLocation {
		return nil, errors.New("it names no place to go")
	}
	to, err := from.Parse(lines[0])
	if err != nil || to.Host == "" || to.User != nil || to.Opaque != "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, errors.New("what it names is no URL of http or https")
	}
	to.Fragment, to.RawFragment = "", ""
	switch {
	case from.Scheme == "https" && to.Scheme == "http":
		return nil, errors.New("it names a URL without TLS")
	case !t.allowedRedirect(from, to):
		return nil, errors.New("it names another host, which is not allowed")
	case to.String() == from.String():
		return nil, errors.New("it names itself")
	}
	return to, nil
}

// allowedRedirect reports whether a redirect from one URL to another stays on the host, or goes to an allowed one. The
// step from http to https may change the port with it.
func (t *Target) allowedRedirect(from, to *url.URL) bool {
	upgrade := from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443"
	if strings.EqualFold(from.Hostname(), to.Hostname()) && (port(from) == port(to) || upgrade) {
		return true
	}
	for _, host := range t.cfg.AllowHosts {
		if strings.EqualFold(strings.Trim(host, "[]"), to.Hostname()) || strings.EqualFold(host, net.JoinHostPort(to.Hostname(), port(to))) {
			return true
		}
	}
	return false
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// The bounds of connections to one target.
const (
	dialTimeout    = 5 * time.Second
	tlsTimeout     = 5 * time.Second
	idleTimeout    = time.Minute
	maxIdle        = 16
	maxHeaderBytes = 64 << 10 // bytes of a response's head
	maxDiscarded   = 8 << 20  // bytes of a response's body that are read at all
)

// A connection of HTTP/2 outlives the attempts that time out on it, so that one which leads nowhere would fail
// every attempt until TCP gives it up. It is asked for a sign of life instead when it has been silent for
// pingAfter, and left when none comes within pingTimeout.
const (
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
)

// newTransport returns what sends to a target. There is no http.Client around it: that would read the Location of
// a redirect, which is ours to judge, and quote it in its errors. Certificates are always validated: there is no switch.
// Content codings are not asked for and not undone.
func newTransport(c Config) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout}
	proxy := http.ProxyFromEnvironment
	if c.DenyPrivate {
		// The check must see the target's own address, after its name was resolved; behind a proxy it would not.
		dialer.Control = verify.OnlyPublic
		proxy = nil
	}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		MaxConnsPerHost:        c.MaxConns,
		MaxIdleConnsPerHost:    min(maxIdle, c.MaxConns),
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: pingAfter},
	}
}
