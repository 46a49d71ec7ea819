// Package opsclient is the client of the operations API: of a running server, or of a handler in
// this process, such as one over a store that was opened for a command.
package opsclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// Workers is the number of requests that a caller may make at once over kept connections.
const Workers = 16

// connectTimeout bounds the first request to a server that may be gone, or busy.
const connectTimeout = 10 * time.Second

// Client sends requests to the operations API.
type Client struct {
	transport http.RoundTripper
	// Live reports that a server runs, and with it the handlers.
	Live bool
}

// New returns a client of a handler in this process.
func New(h http.Handler) *Client { return &Client{transport: handlerTransport{h}} }

// Running says how to reach the server of a configuration.
type Running struct {
	StateDir          string // where the server wrote its address and its token
	CertFile, KeyFile string // of operations_tls; empty without it
	ReadOnly          bool   // uses the token for reading
}

// Connect returns a client of the running server, or nil if none responds. The error says why a
// running server refuses us.
func (r Running) Connect(ctx context.Context) (*Client, error) {
	name := opsapi.TokenFile
	if r.ReadOnly {
		name = opsapi.ReadTokenFile
	}
	tokenFile := filepath.Join(r.StateDir, name)
	address, token, err := opsapi.ReadState(r.StateDir, name)
	if errors.Is(err, fs.ErrPermission) {
		return nil, usage.Errorf("ask as the user that runs serve", "%s: only its owner may read it", tokenFile)
	} else if err != nil {
		return nil, nil //nolint:nilerr // no server runs
	}
	c := &Client{transport: r.transport(address, token), Live: true}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	res, err := c.do(ctx, http.MethodGet, "/jobs", nil) // needs the token, and reads nothing from the store
	if err != nil {
		return nil, nil //nolint:nilerr // it is gone and left its files
	}
	_ = res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized && strings.Contains(res.Header.Get("WWW-Authenticate"), opsapi.Realm) {
		const hint = "serve writes a new one at each start: does --config name the file of the server that runs?"
		return nil, usage.Errorf(hint, "the server at %s does not take the token in %s", address, tokenFile)
	}
	if res.StatusCode != http.StatusOK {
		return nil, nil // another program has the port
	}
	return c, nil
}

// Probe asks a server at an address, in the form that servers write, for one of its probes: a path
// that needs no token. It returns the text of the answer. An answer that is not 200 is an error.
func (r Running) Probe(ctx context.Context, address, path string) (string, error) {
	c := &Client{transport: r.transport(address, "")}
	res, err := c.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	defer drain(res)
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return usage.OneLine(string(text)), err
}

// transport reaches the address that the server wrote.
func (r Running) transport(address, token string) http.RoundTripper {
	t := &http.Transport{MaxIdleConnsPerHost: Workers, IdleConnTimeout: time.Second}
	base := url.URL{Scheme: "http", Host: address}
	if path, ok := strings.CutPrefix(address, opsapi.UnixScheme); ok {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		base.Host = "localhost"
		return &serverTransport{Transport: t, base: base, token: token, unix: true}
	} else if host, ok := strings.CutPrefix(address, "https://"); ok {
		t.TLSClientConfig = &tls.Config{
			MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: r.verify,
		}
		base = url.URL{Scheme: "https", Host: host}
	}
	return &serverTransport{Transport: t, base: base, token: token}
}

// verify accepts a server with the certificate of operations_tls, under any name.
func (r Running) verify(state tls.ConnectionState) error {
	if r.CertFile == "" {
		return errors.New("the server uses operations_tls, and these settings do not name its certificate")
	}
	pair, err := tls.LoadX509KeyPair(r.CertFile, r.KeyFile)
	if err == nil && !pair.Leaf.Equal(state.PeerCertificates[0]) {
		err = errors.New("the server's certificate is not that of operations_tls")
	}
	return err
}

// serverTransport sends requests to one server with its token.
type serverTransport struct {
	*http.Transport
	base  url.URL
	token string
	unix  bool
}

// RoundTrip implements http.RoundTripper.
func (t *serverTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = t.base.Scheme, t.base.Host
	r.Header.Set("Authorization", "Bearer "+t.token)
	return t.Transport.RoundTrip(r)
}

// handlerTransport answers with a handler of this process. The response is read while written.
type handlerTransport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	started := make(chan *http.Response, 1)
	go func() {
		p := &pipeWriter{PipeWriter: w, res: http.Response{Header: http.Header{}, Body: body}, started: started}
		t.handler.ServeHTTP(p, r)
		p.WriteHeader(http.StatusOK)
		_ = w.Close() // never fails
	}()
	return <-started, nil
}

// pipeWriter is an http.ResponseWriter whose response begins with its head.
type pipeWriter struct {
	*io.PipeWriter
	res     http.Response // its status is 0 until it begins
	started chan *http.Response
}

func (p *pipeWriter) Header() http.Header { return p.res.Header }

func (p *pipeWriter) WriteHeader(status int) {
	if p.res.StatusCode == 0 {
		p.res.StatusCode = status
		p.started <- &p.res
	}
}

func (p *pipeWriter) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.PipeWriter.Write(b)
}

// do sends a request with a body of JSON, if any.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("the server did not answer: %w", err)
	}
	return res, nil
}

// Refusal is the error for a request that the API refused (4xx). Other requests may succeed.
type Refusal struct {
	Status int
	Title  string
}

// Error returns the title.
func (r *Refusal) Error() string { return r.Title }

// call sends a request. A response above 299 is an error: a [*Refusal] below 500.
func (c *Client) call(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	res, err := c.do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer drain(res)
	title := problemTitle(res)
	if res.StatusCode < 500 {
		return nil, &Refusal{res.StatusCode, title}
	}
	return nil, errors.New(title)
}

func (c *Client) get(ctx context.Context, path string) (*http.Response, error) {
	return c.call(ctx, http.MethodGet, path, nil)
}

// send sends a request whose response has no content.
func (c *Client) send(ctx context.Context, method, path string, body []byte) error {
	res, err := c.call(ctx, method, path, body)
	if err == nil {
		drain(res)
	}
	return err
}

// fetch decodes a response.
func fetch[T any](ctx context.Context, c *Client, method, path string) (v T, err error) {
	v, _, err = one[T](ctx, c, method, path)
	return v, err
}

// drain reads a response to its end, so that its connection is reused.
func drain(res *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	_ = res.Body.Close()
}

// problemTitle returns the title of a problem (RFC 9457), else the plain text, else the status.
func problemTitle(res *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // a cut response has the text that came
	var problem struct{ Title string }
	switch {
	case json.Unmarshal(text, &problem) == nil && problem.Title != "":
		return problem.Title
	case strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain"):
		return strings.TrimSpace(string(text))
	}
	return http.StatusText(res.StatusCode)
}
