package config

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/sink"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/verify"
)

// signSettings is the key with which a forward handler signs (RFC 9421).
type signSettings struct {
	Node           *conf.Node
	ID             string        `conf:"id"`  // the keyid
	Alg            string        `conf:"alg"` // defaults to that of the key
	PrivateKeyFile string        `conf:"key_file"`
	Secret         verify.Secret `conf:"secret"`
	Label          string        `conf:"label"` // defaults to sig1
	Tag            string        `conf:"tag"`
	Components     []string      `conf:"covers"` // default to those of the profile
}

// forwardSettings are the settings of forward besides the URL.
type forwardSettings struct {
	Mode           string        `conf:"mode,relay|store"`
	Sign           *signSettings `conf:"sign"`
	Bearer         verify.Secret `conf:"bearer"`
	DenyPrivate    bool          `conf:"deny_private"`
	AllowHosts     []string      `conf:"hosts"`
	TotalRetryTime time.Duration `conf:"total_retry_time"`
	TerminalLimit  int           `conf:"terminal_limit"`
	KeepResponse   *bool         `conf:"keep_response"` // of failed attempts; the default
	CAFile         string        `conf:"ca_file"`
	ForwardHeaders []string      `conf:"forward_headers"` // besides the own and the signed fields
}

func (b *handlerBuilder) refuseForwardSettings(h *Handler) {
	for _, name := range []string{
		"mode", "sign", "bearer", "bearer_file", "deny_private", "hosts", "total_retry_time", "terminal_limit",
		"keep_response", "ca_file", "forward_headers",
	} {
		b.refuseIf(h.Node.Member(name) != nil, h, name, "forward")
	}
}

// forward returns the sink of a forward handler. Its target has the handler's name.
func (b *handlerBuilder) forward(h *Handler, name string) sink.Sink {
	u, err := url.Parse(h.Forward)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		b.errs.Add(h.Node.Place("forward"), "write it in full, as in http://127.0.0.1:9000/deploy",
			"forward is not a URL of http or https")
		return nil
	}
	if _, twice := b.taken[name]; twice {
		return nil // build reports it
	}
	target, err := forward.New(forward.Config{
		Name: name, URL: h.Forward, State: b.plan.Targets, AllowHosts: h.AllowHosts, DenyPrivate: h.DenyPrivate,
		TotalRetryTime: h.TotalRetryTime, TerminalLimit: h.TerminalLimit, MaxConns: h.Concurrency,
		Roots: b.roots(h), Credentials: b.credentials(h), Timeout: b.timeout(h), Via: b.plan.Via, Fields: b.fields(h),
		OmitReplies: h.KeepResponse != nil && !*h.KeepResponse,
	})
	if err != nil {
		b.errs.Add(h.Node.Place("forward"), "", "forward: %v", err)
		return nil
	}
	b.plan.closers = append(b.plan.closers, target)
	return &sink.Forward{Target: target}
}

// fields returns the header fields to send: those of the producer and those of the configuration.
func (b *handlerBuilder) fields(h *Handler) []string {
	if err := forward.CheckFields(h.ForwardHeaders); err != nil {
		b.errs.Add(h.Node.Place("forward_headers"),
			"name the fields that the target needs, as in [X-Shop-Region, X-Trace-*]", "forward_headers: %v", err)
		return nil
	}
	from, err := b.plan.Producer(h.Producer)
	if err != nil {
		return h.ForwardHeaders // reported already
	}
	own := slices.DeleteFunc(from.OwnFields(), func(field string) bool {
		return forward.CheckFields([]string{field}) != nil
	})
	return append(own, h.ForwardHeaders...)
}

// roots returns the system's certificate authorities and those of ca_file, or nil for the system's.
func (b *handlerBuilder) roots(h *Handler) *x509.CertPool {
	if h.CAFile == "" {
		return nil
	}
	text, err := b.files.Read(b.Path(h.CAFile))
	if err != nil {
		b.errs.Add(h.Node.Place("ca_file"), "the name is relative to the configuration file",
			"ca_file %s: %s", h.CAFile, usage.Cause(err))
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		b.errs.Add(h.Node.Place("ca_file"), "", "ca_file %s holds no PEM block CERTIFICATE", h.CAFile)
	}
	return pool
}

// credentials returns what authenticates us to the target, or nil if nothing does. Files are read
// again when the target answers 401, because a key may have been rotated.
func (b *handlerBuilder) credentials(h *Handler) func(context.Context, bool) (forward.Credentials, error) {
	if h.Sign == nil && h.Bearer == "" {
		return nil
	}
	current, err := b.loadCredentials(h)
	if err != nil {
		at := h.Node.At
		if h.Sign != nil {
			at = h.Sign.Node.At
		}
		b.errs.Add(at, "`eyelet keygen` makes a key", "%v", err)
		return nil
	}
	var mu sync.Mutex
	return func(_ context.Context, refresh bool) (forward.Credentials, error) {
		mu.Lock()
		defer mu.Unlock()
		if refresh {
			fresh, err := b.loadCredentials(h)
			if err != nil {
				return forward.Credentials{}, err
			}
			current = fresh
		}
		return current, nil
	}
}

func (b *handlerBuilder) loadCredentials(h *Handler) (c forward.Credentials, err error) {
	if h.Bearer != "" {
		token, err := b.currentSecret(h.Node, "bearer_file", h.Bearer)
		if err != nil {
			return c, err
		}
		if strings.ContainsFunc(token, unicode.IsControl) {
			return c, errors.New("bearer holds a control character, which is not allowed in a header field")
		}
		c.Authorization = verify.Secret("Bearer " + token)
	}
	if h.Sign != nil {
		c.Signer, err = b.signer(h.Sign)
	}
	return c, err
}

// signer returns the signer with its key, after a trial signature.
func (b *handlerBuilder) signer(s *signSettings) (*verify.Signer, error) {
	signer := &verify.Signer{KeyID: s.ID, Alg: verify.Alg(s.Alg), Label: s.Label, Tag: s.Tag, Components: s.Components}
	switch {
	case s.ID == "":
		return nil, errors.New("sign: the key needs an id, which signatures name in their parameter keyid")
	case (s.PrivateKeyFile == "") == (s.Secret == ""):
		return nil, errors.New("sign needs one of key_file and secret")
	case s.Secret != "":
		text, err := b.currentSecret(s.Node, "secret_file", s.Secret)
		if err != nil {
			return nil, err
		}
		if _, err := verify.NewHMACKey(s.ID, []byte(text)); err != nil {
			return nil, fmt.Errorf("sign: %w", err)
		}
		signer.Secret = []byte(text)
	default:
		text, err := b.files.Read(b.Path(s.PrivateKeyFile))
		if err != nil {
			return nil, fmt.Errorf("sign: key file %s: %s", s.PrivateKeyFile, usage.Cause(err))
		}
		if signer.Private, err = verify.ParsePrivateKey(text); err != nil {
			return nil, fmt.Errorf("sign: key file %s: %w", s.PrivateKeyFile, err)
		}
	}
	return signer, trySigning(signer)
}

// currentSecret returns the secret that is in its file now, or the one in the configuration.
func (b *handlerBuilder) currentSecret(n *conf.Node, setting string, written verify.Secret) (string, error) {
	file := n.Scalar(setting)
	if file == "" {
		return string(written), nil
	}
	data, err := b.files.Read(b.Path(file))
	if err != nil {
		return "", fmt.Errorf("%s %s: %s", setting, file, usage.Cause(err))
	}
	fresh := strings.TrimSpace(string(data))
	if fresh == "" {
		return "", fmt.Errorf("%s %s is empty", setting, file)
	}
	return fresh, nil
}

// trySigning signs a request that is never sent, so an unsuitable key is found at start.
func trySigning(s *verify.Signer) error {
	req, err := http.NewRequest(http.MethodPost, "https://target.example/", nil) //nolint:noctx // never sent
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", `"trial"`)
	if err = s.Sign(req, []byte("{}"), time.Now()); err != nil {
		err = fmt.Errorf("sign: %w", err)
	}
	return err
}
