package config

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/sink"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/verify"
)

// signConfig is the key with which a forward handler signs (RFC 9421).
type signConfig struct {
	Node           *node
	ID             string   `conf:"id"`  // the keyid
	Alg            string   `conf:"alg"` // defaults to that of the key
	PrivateKeyFile string   `conf:"private_key_file"`
	Secret         secret   `conf:"secret,secret"`
	Label          string   `conf:"label"` // defaults to sig1
	Tag            string   `conf:"tag"`
	Components     []string `conf:"components"` // defaults to those of the profile
}

// forwardConfig are the settings of forward beside the URL.
type forwardConfig struct {
	Mode           string        `conf:"mode"` // relay or store
	Sign           *signConfig   `conf:"sign"`
	Bearer         secret        `conf:"bearer,secret"`
	DenyPrivate    bool          `conf:"deny_private"`
	AllowHosts     []string      `conf:"allow_hosts"`
	TotalRetryTime time.Duration `conf:"total_retry_time"`
	TerminalLimit  int           `conf:"terminal_limit"`
	MaxConnections int           `conf:"max_connections"`
	CAFile         string        `conf:"ca_file"`
	ForwardHeaders []string      `conf:"forward_headers"` // fields that go on beside what the producer has and signs
}

// forwardOnly are the settings that mean nothing without forward.
func forwardOnly() []string {
	return []string{
		"mode", "sign", "bearer", "bearer_file", "deny_private", "allow_hosts", "total_retry_time", "terminal_limit",
		"max_connections", "ca_file", "forward_headers",
	}
}

func (b *handlerBuild) refuseForwardSettings(h *Handler) {
	for _, name := range forwardOnly() {
		if h.Node.inner[name] != nil {
			b.add(h.Node.place(name), "", "%s is a setting of forward", name)
		}
	}
}

// forward returns the sink of a forward handler, whose target has the handler's name.
func (b *handlerBuild) forward(h *Handler, name string) sink.Sink {
	u, err := url.Parse(h.Forward)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		b.add(h.Node.place("forward"), "write it whole, as in http://127.0.0.1:9000/deploy", "forward is no URL of http or https")
		return nil
	}
	if _, twice := b.taken[name]; twice {
		return nil // told already
	}
	c := forward.Config{
		Name: name, URL: h.Forward, State: b.targets, AllowHosts: h.AllowHosts, DenyPrivate: h.DenyPrivate,
		TotalRetryTime: h.TotalRetryTime, TerminalLimit: h.TerminalLimit, MaxConns: h.MaxConnections,
		Roots: b.roots(h), Credentials: b.credentials(h), Timeout: b.timeoutOf(h, b.answers(h)),
		Via: b.viaName(), Fields: b.fields(h),
	}
	target, err := forward.New(c)
	if err != nil {
		b.add(h.Node.place("forward"), "", "forward: %v", err)
		return nil
	}
	b.closers = append(b.closers, target)
	return &sink.Forward{Target: target}
}

// fields are the header fields that go on: those of the producer, and those of the configuration.
func (b *handlerBuild) fields(h *Handler) []string {
	if err := forward.CheckFields(h.ForwardHeaders); err != nil {
		b.add(h.Node.place("forward_headers"), "name the fields that the target needs, as in [X-Shop-Region, X-Trace-*]", "forward_headers: %v", err)
		return nil
	}
	fields := h.ForwardHeaders
	for i := range b.producers {
		if p := &b.producers[i]; p.Name == h.Producer {
			own := slices.DeleteFunc(p.OwnFields(), func(field string) bool { return forward.CheckFields([]string{field}) != nil })
			fields = append(own, fields...)
		}
	}
	return fields
}

// roots are the system's authorities and those of ca_file; nil for the system's alone.
func (b *handlerBuild) roots(h *Handler) *x509.CertPool {
	if h.CAFile == "" {
		return nil
	}
	text, err := os.ReadFile(b.Path(h.CAFile))
	if err != nil {
		b.add(h.Node.place("ca_file"), "the name is relative to the configuration file", "ca_file %s: %s", h.CAFile, usage.Cause(err))
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		b.add(h.Node.place("ca_file"), "", "ca_file %s holds no PEM block CERTIFICATE", h.CAFile)
	}
	return pool
}

// credentials returns what proves to the target who we are; nil where nothing does. Files are read again when
// the target answers 401: somebody may have put a new key there.
func (b *handlerBuild) credentials(h *Handler) func(context.Context, bool) (forward.Credentials, error) {
	if h.Sign == nil && h.Bearer == "" {
		return nil
	}
	load := func() (forward.Credentials, error) { return b.loadCredentials(h) }
	current, err := load()
	if err != nil {
		at := h.Node.at
		if h.Sign != nil {
			at = h.Sign.Node.at
		}
		b.add(at, "`eyelet keygen` makes a key", "%v", err)
		return nil
	}
	var mu sync.Mutex
	return func(_ context.Context, refresh bool) (forward.Credentials, error) {
		mu.Lock()
		defer mu.Unlock()
		if refresh {
			fresh, err := load()
			if err != nil {
				return forward.Credentials{}, err
			}
			current = fresh
		}
		return current, nil
	}
}

func (b *handlerBuild) loadCredentials(h *Handler) (forward.Credentials, error) {
	var c forward.Credentials
	if h.Bearer != "" {
		token, err := b.reread(h.Node, "bearer_file", string(h.Bearer))
		if err != nil {
			return c, err
		}
		if strings.ContainsFunc(token, unicode.IsControl) {
			return c, errors.New("bearer holds a control character, which no field can have")
		}
		c.Authorization = verify.Secret("Bearer " + token)
	}
	if h.Sign == nil {
		return c, nil
	}
	s := h.Sign
	c.Signer = &verify.Signer{KeyID: s.ID, Alg: verify.Alg(s.Alg), Label: s.Label, Tag: s.Tag, Components: s.Components}
	switch {
	case s.ID == "":
		return c, errors.New("sign: the key needs an id, which signatures name in their parameter keyid")
	case (s.PrivateKeyFile == "") == (s.Secret == ""):
		return c, errors.New("sign needs one of private_key_file and secret")
	case s.Secret != "":
		text, err := b.reread(s.Node, "secret_file", string(s.Secret))
		if err != nil {
			return c, err
		}
		if _, err := verify.NewHMACKey(s.ID, []byte(text)); err != nil {
			return c, fmt.Errorf("sign: %w", err)
		}
		c.Signer.Secret = []byte(text)
	default:
		text, err := os.ReadFile(b.Path(s.PrivateKeyFile))
		if err != nil {
			return c, fmt.Errorf("sign: key file %s: %s", s.PrivateKeyFile, usage.Cause(err))
		}
		if c.Signer.Private, err = verify.ParsePrivateKey(text); err != nil {
			return c, fmt.Errorf("sign: key file %s: %w", s.PrivateKeyFile, err)
		}
	}
	return c, rehearseSigning(c.Signer)
}

// reread returns the secret of the file that the setting names now, or the one that was written in the
// configuration.
func (b *handlerBuild) reread(n *node, setting, written string) (string, error) {
	file := n.scalar(setting)
	if file == "" {
		return written, nil
	}
	data, err := os.ReadFile(b.Path(file))
	if err != nil {
		return "", fmt.Errorf("%s %s: %s", setting, file, usage.Cause(err))
	}
	fresh := strings.TrimSpace(string(data))
	if fresh == "" {
		return "", fmt.Errorf("%s %s is empty", setting, file)
	}
	return fresh, nil
}

// rehearseSigning signs a request that is never sent, so that a key which does not fit is found at the start.
func rehearseSigning(s *verify.Signer) error {
	req, err := http.NewRequest(http.MethodPost, "https://target.example/", nil) //nolint:noctx // never sent
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", `"rehearsal"`)
	if err := s.Sign(req, []byte("{}"), time.Now()); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	return nil
}
