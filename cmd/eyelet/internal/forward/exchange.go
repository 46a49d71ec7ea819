package forward

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/publicnet"
)

// response is the result of an attempt. Without a status the outcome is unknown, and err is why.
type response struct {
	status      int
	retryAfter  []string
	sunset      time.Time
	contentType string
	body        []byte
	reply       string   // the beginning of the body as text, whatever its length
	moved       *url.URL // the URL of a 308 from the stored target
	ours        bool     // the attempt failed before the target was reached
	err         error
}

// attempt sends the event, follows a 307 if allowed, and repeats a 401 with fresh credentials.
func (t *Target) attempt(ctx context.Context, ev Event, to *url.URL) response {
	var creds Credentials
	var err error
	if !ev.Unverified {
		creds, err = t.credentials(ctx, false)
	}
	if err != nil {
		return response{ours: true, err: fmt.Errorf("credentials: %w", err)}
	}
	refreshed := t.cfg.Credentials == nil || ev.Unverified
	for followed := 0; ; {
		s, header := t.exchange(ctx, ev, to, creds)
		switch {
		case s.status == http.StatusUnauthorized && !refreshed:
			refreshed = true
			if creds, err = t.credentials(ctx, true); err != nil {
				err = fmt.Errorf("the target answered 401, and there are no fresh credentials: %w", err)
				return response{ours: true, err: err}
			}
		case s.status == http.StatusTemporaryRedirect, s.status == http.StatusPermanentRedirect:
			next, err := t.redirectTarget(to, header)
			if err == nil && followed == maxRedirects {
				err = errors.New("too many redirects")
			}
			if err != nil {
				s.err = fmt.Errorf("the target answered %d, which cannot be followed: %w", s.status, err)
				return s
			}
			if s.status == http.StatusPermanentRedirect && followed == 0 {
				s.moved = next
				return s
			}
			to, followed = next, followed+1 // nothing is permanent after a 307
		default:
			return s
		}
	}
}

func (t *Target) credentials(ctx context.Context, refresh bool) (c Credentials, err error) {
	if t.cfg.Credentials != nil {
		c, err = t.cfg.Credentials(ctx, refresh)
	}
	c.Authorization = cmp.Or(c.Authorization, t.basic)
	return c, err
}

// exchange sends one request and reads the whole response. A response that is cut is an error: the
// outcome is unknown (section 9.3 of the draft).
func (t *Target) exchange(ctx context.Context, ev Event, to *url.URL, creds Credentials) (response, http.Header) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(ev.Body))
	if err != nil {
		return response{ours: true, err: errors.New("the target is not a URL")}, nil
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
	var transport http.RoundTripper = t.transport
	if t.cfg.State != nil && t.cfg.State.Wrap != nil {
		transport = t.cfg.State.Wrap(ev.ID, transport)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return response{err: fmt.Errorf("no response from the target: %w", redactError(err))}, nil
	}
	defer res.Body.Close() //nolint:errcheck // it was read as far as needed
	if res.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the connection itself, which ctx does not end.
		return response{err: errors.New("the target switched protocols (101), which was not requested")}, nil
	}
	s := read(res)
	if s.reply != "" {
		s.reply = t.withoutCredentials(s.reply, creds)
	}
	return s, res.Header
}

// maxReply is how much of a body is kept as text, in bytes: more than a store keeps, so that no
// credential is cut in two before it is found.
const maxReply = 8 << 10

// withoutCredentials removes ours from the text of a target, which may echo the request.
func (t *Target) withoutCredentials(text string, creds Credentials) string {
	_, token, _ := strings.Cut(string(creds.Authorization), " ")
	hidden := []string{string(creds.Authorization), token}
	if name, password, ok := basicAuth(token); ok {
		hidden = append(hidden, name+":"+password, password)
	}
	for _, values := range t.url.Query() {
		hidden = append(hidden, values...)
	}
	for _, one := range hidden {
		if len(one) >= 4 {
			text = strings.ReplaceAll(text, one, "REDACTED")
			text = strings.ReplaceAll(text, url.QueryEscape(one), "REDACTED")
		}
	}
	return text
}

// basicAuth decodes the credentials of RFC 7617.
func basicAuth(token string) (name, password string, ok bool) {
	text, err := base64.StdEncoding.DecodeString(token)
	name, password, ok = strings.Cut(string(text), ":")
	return name, password, ok && err == nil
}

// read reads a response to its end, or to its limit.
func read(res *http.Response) response {
	var kept bytes.Buffer
	n, err := io.Copy(&kept, io.LimitReader(res.Body, MaxResponse+1))
	reply := ""
	if res.Header.Get("Content-Encoding") == "" {
		reply = strings.ToValidUTF8(string(kept.Bytes()[:min(kept.Len(), maxReply)]), "\uFFFD")
	}
	if err == nil && n > MaxResponse {
		kept = bytes.Buffer{}
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxDiscarded))
	}
	if err != nil {
		err = redactError(err)
		err = fmt.Errorf("the target's response was cut, and its outcome is unknown: %w", err)
		return response{err: err, reply: reply}
	}
	h := res.Header
	s := response{
		status: res.StatusCode, reply: reply, retryAfter: h.Values("Retry-After"),
		sunset: parseSunset(h.Values("Sunset")),
	}
	if h.Get("Content-Encoding") == "" && kept.Len() > 0 {
		s.body, s.contentType = kept.Bytes(), h.Get("Content-Type")
	}
	return s
}

// redactError removes text of the target from an error of net/http: it may echo our URL.
func redactError(err error) error {
	_, network := errors.AsType[net.Error](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, malformed := errors.AsType[textproto.ProtocolError](err)
	text, _, quotes := strings.Cut(err.Error(), `"`)
	switch {
	case network || certificate:
		return err
	case malformed:
		return errors.New("the response is malformed")
	case quotes:
		return errors.New(strings.TrimSpace(text))
	}
	return err
}

const (
	maxRedirects = 3       // 307 responses that one attempt follows
	maxLocation  = 8 << 10 // bytes of the Location field
)

// redirectTarget returns the URL that a 307 or 308 names if it is allowed: absolute, of http or
// https, without credentials, on the same host or one in AllowHosts, and never from https to http.
func (t *Target) redirectTarget(from *url.URL, header http.Header) (*url.URL, error) {
	lines := header.Values("Location")
	if len(lines) != 1 || lines[0] == "" || len(lines[0]) > maxLocation {
		return nil, errors.New("it has no Location")
	}
	to, err := from.Parse(lines[0])
	if err != nil || to.Host == "" || to.User != nil || to.Opaque != "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, errors.New("its Location is not a URL of http or https")
	}
	to.Fragment, to.RawFragment = "", ""
	switch {
	case from.Scheme == "https" && to.Scheme == "http":
		return nil, errors.New("its Location is a URL without TLS")
	case !t.allowedRedirect(from, to):
		return nil, errors.New("its Location is another host, which is not allowed")
	case to.String() == from.String():
		return nil, errors.New("its Location is the same URL")
	}
	return to, nil
}

// allowedRedirect reports whether a redirect stays on the host or names an allowed one. The step
// from http to https may change the default port.
func (t *Target) allowedRedirect(from, to *url.URL) bool {
	upgrade := from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443"
	if strings.EqualFold(from.Hostname(), to.Hostname()) && (port(from) == port(to) || upgrade) {
		return true
	}
	name, full := to.Hostname(), net.JoinHostPort(to.Hostname(), port(to))
	return slices.ContainsFunc(t.cfg.AllowHosts, func(host string) bool {
		return strings.EqualFold(strings.Trim(host, "[]"), name) || strings.EqualFold(host, full)
	})
}

func port(u *url.URL) string {
	if u.Scheme == "https" {
		return cmp.Or(u.Port(), "443")
	}
	return cmp.Or(u.Port(), "80")
}

// The limits of connections to one target.
const (
	dialTimeout    = 5 * time.Second // for TCP, and then for TLS
	idleTimeout    = time.Minute
	maxIdle        = 16
	maxHeaderBytes = 64 << 10 // bytes of a response header
	maxDiscarded   = 8 << 20  // bytes of a response body that are read at all

	// An HTTP/2 connection outlives the attempts that time out on it, so a dead one would fail
	// every attempt until TCP drops it. A connection that was silent for pingAfter gets a ping, and
	// is closed without an answer within pingTimeout.
	pingAfter, pingTimeout = 10 * time.Second, 5 * time.Second
)

// newTransport returns the transport for a target. It has no http.Client around it, because that
// would parse the Location of a redirect and quote it in its errors. Certificates are always
// validated. Content codings are neither requested nor decoded.
func newTransport(c Config) *http.Transport {
	dialer, proxy := &net.Dialer{Timeout: dialTimeout}, http.ProxyFromEnvironment
	if c.DenyPrivate { // checked at the target's own address after name resolution, which a proxy would hide
		dialer.Control, proxy = publicnet.Control, nil
	}
	return &http.Transport{
		Proxy: proxy, DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: dialTimeout,
		MaxConnsPerHost: c.MaxConns, MaxIdleConnsPerHost: min(maxIdle, c.MaxConns), IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true, ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: pingAfter},
	}
}
