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
)

// seen is what an attempt saw. Without a status nobody knows the outcome, and err says why.
type seen struct {
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
func (t *Target) attempt(ctx context.Context, ev Event, to *url.URL) seen {
	proof, err := t.credentials(ctx, false)
	if err != nil {
		return seen{ours: true, err: fmt.Errorf("credentials: %w", err)}
	}
	refreshed := t.cfg.Credentials == nil
	for followed := 0; ; {
		s, header := t.exchange(ctx, ev, to, proof)
		switch {
		case s.status == http.StatusUnauthorized && !refreshed:
			refreshed = true
			if proof, err = t.credentials(ctx, true); err != nil {
				return seen{ours: true, err: fmt.Errorf("the target answered 401, and there are no fresh credentials: %w", err)}
			}
		case s.status == http.StatusTemporaryRedirect, s.status == http.StatusPermanentRedirect:
			next, err := t.redirected(to, header)
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
func (t *Target) exchange(ctx context.Context, ev Event, to *url.URL, proof Credentials) (seen, http.Header) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(ev.Body))
	if err != nil {
		return seen{ours: true, err: errors.New("the target is no URL")}, nil
	}
	req.Header = t.header(ev, to, labelOf(proof))
	if proof.Authorization != "" {
		req.Header.Set("Authorization", string(proof.Authorization))
	}
	if proof.Signer != nil {
		if err := proof.Signer.Sign(req, ev.Body, t.cfg.Now()); err != nil {
			return seen{ours: true, err: fmt.Errorf("the request cannot be signed: %w", err)}, nil
		}
	}
	res, err := t.wire.RoundTrip(req)
	if err != nil {
		return seen{err: fmt.Errorf("no answer from the target: %w", unquoted(err))}, nil
	}
	defer res.Body.Close() //nolint:errcheck // what was wanted of it was read
	if res.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the connection itself, which no context ends.
		return seen{err: errors.New("the target switched protocols (101), which nobody asked for")}, nil
	}
	return read(res), res.Header
}

// read reads a response to its end, or to its bound.
func read(res *http.Response) seen {
	var kept bytes.Buffer
	n, err := io.Copy(&kept, io.LimitReader(res.Body, MaxResponse+1))
	if err == nil && n > MaxResponse {
		kept = bytes.Buffer{}
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxDiscarded))
	}
	if err != nil {
		return seen{err: fmt.Errorf("the target's response was cut, and its outcome is unknown: %w", unquoted(err))}
	}
	s := seen{status: res.StatusCode, retryAfter: res.Header.Values("Retry-After"), sunset: parseSunset(res.Header.Values("Sunset"))}
	if res.Header.Get("Content-Encoding") == "" && kept.Len() > 0 {
		s.body, s.contentType = kept.Bytes(), res.Header.Get("Content-Type")
	}
	return s
}

// unquoted takes what the target wrote out of an error of net/http: it may be our own request, with its URL.
func unquoted(err error) error {
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
