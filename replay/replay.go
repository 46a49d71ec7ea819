// Package replay sends recorded deliveries to a receiver again: octet for octet as they were
// recorded, or with a new signature.
//
// [Read] reads a recording, [Export] makes one from a stored event, and [Send] sends it.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/publicurl"
)

// Recording is a recorded delivery: an *.http file.
type Recording = httpfile.File

// Field is a header field of a Recording.
type Field = httpfile.Field

// Read reads a recording. Syntax errors name the line.
func Read(path string) (*Recording, error) { return httpfile.Read(path) }

// Signer signs a request as its producer does; *verify.Signer and *verify.HMAC implement it. r.URL
// is absolute, as the producer calls it.
type Signer interface {
	Sign(r *http.Request, body []byte, now time.Time) error
}

// Options configure [Send].
type Options struct {
	// URL is that of the receiver: http or https. Without a path and a query the recorded target
	// is used, octet for octet. Required.
	URL string
	// Sign signs the request again, without the recorded signature. Defaults to sending it as it
	// was recorded, with its Host.
	Sign Signer
	// SignedURL is the public base URL of the producer, if it is not URL. The path and the query
	// follow its path, with their escaped octets. It is used with Sign only.
	SignedURL string
	// Now is the time of a fresh signature. Defaults to the present.
	Now time.Time
	// Client sends the request. Redirects are never followed. Defaults to [NewClient].
	Client *http.Client
	// Header is added to the request after it was signed.
	Header http.Header
}

// Result is the receiver's response.
type Result struct {
	Status int
	Header http.Header
	Body   []byte
	// Replayed reports that the response is that of an earlier delivery.
	Replayed bool
	// Code is the code of a problem (RFC 9457); empty without one.
	Code string
	// Took is the time from the first byte sent to the last one received.
	Took time.Duration
}

// maxAnswer bounds the response body, in bytes.
const maxAnswer = 4 << 20

// ErrNoAnswer is in the error of Send if the delivery was or may have been sent, and no complete
// response was read: its outcome is unknown.
var ErrNoAnswer = errors.New("no complete response")

// unanswered adds ErrNoAnswer to an error.
type unanswered struct{ error }

func (unanswered) Is(target error) bool {
	return target == ErrNoAnswer //nolint:errorlint // errors.Is compares this value
}
func (e unanswered) Unwrap() error { return e.error }

// Send sends the recording and returns the response, whatever its status. The error is
// [ErrNoAnswer], or says what is wrong with the recording or the options; then nothing was sent.
func Send(ctx context.Context, rec *Recording, o Options) (Result, error) {
	req, err := request(ctx, rec, o)
	if err != nil {
		return Result{}, err
	}
	for name, values := range o.Header {
		req.Header[name] = values
	}
	client := o.Client
	if client == nil {
		client = NewClient()
		defer client.CloseIdleConnections()
	}
	started := time.Now()
	res, err := withoutRedirects(client).Do(req)
	if err != nil {
		return Result{}, unanswered{fmt.Errorf("no answer: %w", withoutURL(err))}
	}
	if res.StatusCode == http.StatusSwitchingProtocols { // its body is the connection itself, which no timeout ends
		return Result{}, unanswered{errors.Join(errors.New("no answer: the receiver switched protocols (101), which "+
			"was not asked for"), res.Body.Close())}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return Result{}, unanswered{fmt.Errorf("the response was cut: %w", err)}
	}
	r := Result{Status: res.StatusCode, Header: res.Header, Body: body, Took: time.Since(started)}
	r.Replayed = res.Header.Get("Idempotency-Replayed") == "true"
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err == nil &&
		kind == "application/problem+json" {
		var problem struct{ Code string }
		if json.Unmarshal(body, &problem) == nil {
			r.Code = problem.Code
		}
	}
	return r, nil
}

// withoutURL removes the URL from an error of net/http: its query may hold a credential.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// request makes the request to send.
func request(ctx context.Context, rec *Recording, o Options) (*http.Request, error) {
	at, err := url.Parse(o.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, errors.New("URL to send to is not absolute, as in http://127.0.0.1:8080")
	}
	recorded, err := url.ParseRequestURI(rec.Target)
	if err != nil {
		return nil, fmt.Errorf("%s: request target is not a URL path", rec.Name)
	}
	req, err := http.NewRequestWithContext(ctx, rec.Method, at.String(), bytes.NewReader(rec.Body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rec.Name, err)
	}
	whole := at.Path != "" && at.Path != "/" || at.RawQuery != ""
	if !whole {
		req.URL.Path, req.URL.RawPath, req.URL.RawQuery = recorded.Path, recorded.RawPath, recorded.RawQuery
	}
	req.Header = header(rec, o.Sign != nil)
	if o.Sign != nil {
		return req, sign(req, rec.Body, o)
	}
	if !whole && strings.HasPrefix(rec.Target, "/") && !strings.HasPrefix(rec.Target, "//") {
		req.URL.Opaque, req.URL.RawQuery = rec.Target, "" // octet for octet
	}
	if host := rec.Host(); host != "" {
		req.Host = host
	}
	return req, nil
}

// header returns the recorded fields. Without a fresh signature their names keep their letter case.
func header(rec *Recording, fresh bool) http.Header {
	h := http.Header{"User-Agent": nil} // none, unless one was recorded
	for _, f := range rec.Fields {
		canonical := textproto.CanonicalMIMEHeaderKey(f.Name)
		if canonical == "Host" || httpfile.OfConnection(canonical) {
			continue
		}
		name := f.Name
		if fresh || canonical == "User-Agent" {
			name = canonical
		}
		h[name] = append(h[name], f.Value)
	}
	if fresh {
		for _, name := range []string{"Signature", "Signature-Input", "Content-Digest"} {
			delete(h, name)
		}
	}
	return h
}

// sign signs the request as if it went to the public URL.
func sign(req *http.Request, body []byte, o Options) error {
	now := o.Now
	if now.IsZero() {
		now = time.Now()
	}
	called := req.URL
	if o.SignedURL != "" {
		public, err := url.Parse(o.SignedURL)
		if err != nil || public.Host == "" {
			return errors.New("signed URL is not absolute, as in https://hooks.example")
		}
		called = publicurl.Of(public, called)
	}
	signed := req.Clone(req.Context())
	signed.URL, signed.Host, signed.RequestURI = called, called.Host, called.RequestURI()
	if err := o.Sign.Sign(signed, body, now); err != nil {
		return err
	}
	req.Header = signed.Header
	return nil
}
