package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/receiver"
)

// forwardSink sends events on to a URL and judges the outcome as
// draft-mayankpanke-event-delivery-semantics-01 section 9.2 says.
type forwardSink struct {
	target *url.URL
	client *http.Client
}

// maxRelayed is how much of a target's response is passed on: what package receiver stores.
const maxRelayed = 1 << 20

func newForwardSink(target *url.URL) *forwardSink {
	return &forwardSink{target: target, client: &http.Client{
		// A redirect is an outcome of its own, and never followed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout:    5 * time.Second,
			MaxConnsPerHost:        64,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		},
	}}
}

// outcome is what a target's response means.
type outcome int

const (
	transient outcome = iota
	accepted
	terminal
)

// judge maps a status to its outcome. A 207 tells of several outcomes, none of which we can name, so it is
// neither accepted nor sent again.
func judge(status int) outcome {
	switch {
	case status == http.StatusMultiStatus:
		return terminal
	case status >= 200 && status < 300:
		return accepted
	case status == http.StatusRequestTimeout, status == http.StatusMisdirectedRequest,
		status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		return transient
	}
	return terminal
}

// deliver forwards a stored event.
func (s *forwardSink) deliver(ctx context.Context, ev receiver.Event[[]byte]) error {
	r, err := s.send(ctx, ev)
	if err != nil {
		return err
	}
	switch judge(r.Status) {
	case accepted:
		return nil
	case terminal:
		return receiver.Reject(fmt.Errorf("the target answered %d", r.Status))
	}
	return fmt.Errorf("the target answered %d", r.Status)
}

// answer relays the event: the target's outcome decides ours. A Retry-After of the target stays here; what we
// ask for is our own (section 9.7).
func (s *forwardSink) answer(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
	r, err := s.send(ctx, ev)
	if err != nil {
		return receiver.Response{}, err
	}
	switch judge(r.Status) {
	case accepted:
		return r, nil
	case terminal:
		return problemResponse(refusal(r.Status), "target_refused", fmt.Sprintf("the target refused the event with status %d", r.Status))
	}
	return receiver.Response{}, fmt.Errorf("the target answered %d", r.Status)
}

// refusal is the status for an event that the target refused. What the target says about the event is passed
// on; what it says about us (401, 403), about where we sent it (404, 405) or about its own life (410) is not
// the producer's, and 409 would make it try again.
func refusal(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnavailableForLegalReasons:
		return status
	}
	return http.StatusUnprocessableEntity
}

// send returns the target's whole response. A response that is cut is an error: nobody knows the outcome.
func (s *forwardSink) send(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target.String(), bytes.NewReader(ev.Body))
	if err != nil {
		return receiver.Response{}, errors.New("the target is no URL")
	}
	req.Header = forwarded(ev)
	res, err := s.client.Do(req)
	if err != nil {
		return receiver.Response{}, withoutURL(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	out := &bounded{max: maxRelayed}
	if _, err := io.Copy(out, io.LimitReader(res.Body, 8*maxRelayed)); err != nil {
		return receiver.Response{}, fmt.Errorf("the target's response was cut: %w", withoutURL(err))
	}
	r := receiver.Response{Status: res.StatusCode}
	if !out.over && out.kept.Len() > 0 {
		r.Body = out.kept.Bytes()
		if kind := res.Header.Get("Content-Type"); kind != "" {
			r.Header = http.Header{"Content-Type": {kind}}
		}
	}
	return r, nil
}

// withoutURL drops the URL from an error of net/http: it may hold credentials.
func withoutURL(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		return fmt.Errorf("no answer from the target: %w", inner.Err)
	}
	return err
}

// hopByHop are fields that are not sent on: those of one connection (RFC 9110 section 7.6.1), those that our
// own request sets, those that tell of the way here, and signatures over the request as it came to us, which
// cannot hold for another URL.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Host", "Content-Length", "Accept-Encoding", "Expect", "Early-Data",
	"Authorization", "Cookie", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
	"X-Real-Ip", "Signature", "Signature-Input",
}

// forwarded returns the fields of the request to the target.
func forwarded(ev receiver.Event[[]byte]) http.Header {
	h := ev.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
	h["Idempotency-Key"] = []string{forwardedKey(ev)}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "eyelet")
	}
	return h
}

// forwardedKey is the identifier, octet for octet where the producer sent the field (section 9.7), else as a
// structured-field string (RFC 9651 section 3.3.3), else, for what no such string can hold, its digest.
func forwardedKey(ev receiver.Event[[]byte]) string {
	if ev.KeyField != "" {
		return ev.KeyField
	}
	if strings.ContainsFunc(ev.ID, func(r rune) bool { return r < ' ' || r > '~' }) {
		sum := sha256.Sum256([]byte(ev.ID))
		return `"sha-256:` + hex.EncodeToString(sum[:]) + `"`
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(ev.ID) + `"`
}
