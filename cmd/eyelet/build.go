package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fmt"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/sink"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// buildOptions is what building needs beside the settings.
type buildOptions struct {
	stdout   io.Writer // of handlers
	testKeys bool      // keys that everybody knows are good
}

// plan is everything that the settings describe, without a store.
type plan struct {
	receiver.Config
	settings *settings
	names    []string // of the handlers, as they stand in the settings
	closers  []io.Closer
	targets  *forward.State // of forward handlers
	stdout   *sink.Output   // of stdout handlers
}

// Close ends what fetches keys.
func (p *plan) Close() error {
	var errs []error
	for _, c := range p.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// build checks the settings as far as that is possible without opening anything, and reports every mistake at
// once.
func (c *settings) build(ctx context.Context, o buildOptions) (*plan, error) {
	pb := &producerBuild{settings: c, testKeys: o.testKeys}
	p := &plan{settings: c, targets: forward.NewState()}
	p.Producers, p.Via = pb.build(ctx), c.viaName()
	found := c.buildHandlers(o.stdout, p)
	p.closers = append(p.closers, pb.closers...)
	found = append(append(pb.wrong, found...), c.check()...)
	c.limits(&p.Config)
	if len(found) == 0 {
		found = p.rehearse() //nolint:contextcheck // closing takes its own time
	}
	if len(found) > 0 {
		return nil, errors.Join(found.Err(), p.Close())
	}
	return p, nil
}

// limits fills in the numbers. The receiver's bounds on handlers are the largest that any of them has; each
// handler keeps its own.
func (c *settings) limits(rc *receiver.Config) {
	l := c.Limits
	rc.URL, rc.Hosts, rc.TrustedProxies = c.URL, c.Hosts, c.TrustedProxies
	rc.Attempts, rc.BackoffBase, rc.BackoffCap, rc.PostponeMax = l.Attempts, l.BackoffBase, l.BackoffCap, l.PostponeMax
	rc.Lease, rc.Workers, rc.RetryAfter, rc.InFlightWait = l.Lease, l.Workers, l.RetryAfter, l.InFlightWait
	if l.InFlightWait == 0 && text(l.Node, "in_flight_wait") != "" {
		rc.InFlightWait = -1 // written as 0: not to wait, and no default
	}
	rc.StoreTimeout = l.StoreTimeout
	rc.BodyTimeout, rc.MaxBody, rc.BodyBudget = l.BodyTimeout, int64(l.MaxBody), int64(l.BodyBudget)
	rc.HandlerTimeout = cmp.Or(l.HandlerTimeout, receiver.DefaultHandlerTimeout)
	rc.AnswerTimeout = cmp.Or(l.AnswerTimeout, receiver.DefaultAnswerTimeout)
	for i := range c.Handlers {
		h := &c.Handlers[i]
		if c.answers(h) {
			rc.AnswerTimeout = max(rc.AnswerTimeout, h.Timeout)
		} else {
			rc.HandlerTimeout = max(rc.HandlerTimeout, h.Timeout)
		}
	}
}

// answers reports whether the handler answers the producer itself.
func (c *settings) answers(h *handlerConfig) bool {
	if h.Forward == "" {
		return h.Answer
	}
	for i := range c.Producers {
		if c.Producers[i].Name == h.Producer {
			return h.Mode == "relay" || h.Mode == "" && c.Producers[i].Scheme == "rfc9421"
		}
	}
	return false
}

// check judges the settings that are not of a producer or a handler.
func (c *settings) check() usage.Errors {
	found := c.checkPorts()
	add := func(setting, hint, what string) {
		found = append(found, &usage.Error{At: c.Node.place(setting), What: what, Hint: hint})
	}
	if c.Via != "" && (!verify.IsToken(c.Via) || len(c.Via) > receiver.MaxVia) {
		add("via", "write a name that no other hop has, as in via: eyelet-berlin", fmt.Sprintf("via is no token of at most %d characters", receiver.MaxVia))
	}
	if !slices.Contains([]string{"text", "json"}, c.Log.Format) {
		found = append(found, &usage.Error{At: c.Log.Node.place("format"), What: "log.format is neither text nor json", Hint: ""})
	}
	if _, err := c.logLevel(); err != nil {
		found = append(found, &usage.Error{At: c.Log.Node.place("level"), What: "log.level is none of debug, info, warn and error"})
	}
	kind, _, err := c.storeKind()
	if err != nil {
		add("store", "write badger:./data, or memory: for trying out", err.Error())
	}
	if l := c.Limits; kind == "memory" && (l.BacklogBytes > 0 || l.BacklogEvents > 0 || l.MinFree > 0) {
		found = append(found, &usage.Error{At: l.Node.at, What: "backlog_bytes, backlog_events and min_free have no meaning for a store in memory", Hint: "leave them out, or write store: badger:DIR"})
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"backlog_events", c.Limits.BacklogEvents}, {"connections", c.Limits.Connections},
		{"connections_per_address", c.Limits.ConnectionsPerAddress},
	} {
		if n.value < 0 {
			found = append(found, &usage.Error{At: c.Limits.Node.place(n.name), What: "limits." + n.name + " is less than 0"})
		}
	}
	if head := c.Limits.Head; head != 0 && (head < minHead || head > maxHead) {
		found = append(found, &usage.Error{At: c.Limits.Node.place("head"), What: "limits.head is not between 8KiB and 1MiB"})
	}
	return found
}

// checkPorts judges where deliveries and operations are served.
func (c *settings) checkPorts() (found usage.Errors) {
	add := func(setting, hint, what string) {
		found = append(found, &usage.Error{At: c.Node.place(setting), What: what, Hint: hint})
	}
	if !validAddress(c.Listen) {
		add("listen", "write 127.0.0.1:8080, or :8080 for all addresses", "listen is no address: "+usage.OneLine(c.Listen))
	} else if c.TLS == nil && !c.InsecureHTTP && len(c.TrustedProxies) == 0 && !loopback(c.Listen) {
		add("listen", "add tls: {cert_file: ..., key_file: ...}, or trusted_proxies, or insecure_http: true where nobody can listen in",
			"deliveries would come over HTTP without TLS from beyond this machine")
	}
	if _, unix := c.unixPath(c.Operations); !unix && c.Operations != operationsOff {
		switch {
		case !validAddress(c.Operations):
			add("operations", "write 127.0.0.1:8081, unix:eyelet.sock, or off", "operations is no address: "+usage.OneLine(c.Operations))
		case c.Operations == c.Listen && !strings.HasSuffix(c.Listen, ":0"):
			add("operations", "choose another port", "listen and operations are the same address")
		case c.OperationsTLS == nil && !c.InsecureHTTP && !loopback(c.Operations):
			add("operations", "add operations_tls: {cert_file: ..., key_file: ...}, or insecure_http: true where nobody can listen in",
				"the token and the events of the operations port would go over HTTP without TLS beyond this machine")
		}
	} else if c.OperationsTLS != nil {
		add("operations_tls", "leave it out", "operations_tls has no meaning for operations: "+usage.OneLine(c.Operations))
	}
	for setting, t := range map[string]*tlsSettings{"tls": c.TLS, "operations_tls": c.OperationsTLS} {
		if t != nil && (t.CertFile == "" || t.KeyFile == "") {
			add(setting, "", setting+" needs a cert_file and a key_file")
		}
	}
	if c.HTTP2 && c.TLS == nil {
		add("http2", "leave it out: a proxy speaks HTTP/2 to producers by itself", "http2 has no meaning without tls")
	}
	return found
}

const operationsOff = "off"

func validAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// loopback reports whether only this machine can reach the address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func (c *settings) logLevel() (slog.Level, error) {
	var level slog.Level
	err := level.UnmarshalText([]byte(c.Log.Level))
	return level, err
}

// storeKind takes the store's setting apart.
func (c *settings) storeKind() (kind, dir string, err error) {
	kind, dir, ok := strings.Cut(c.Store, ":")
	switch {
	case kind == "memory" && dir == "": // YAML wants quotes around memory:, so both are good
		return kind, "", nil
	case ok && kind == "badger" && dir != "":
		return kind, c.path(dir), nil
	}
	return "", "", errors.New("store is neither badger:DIR nor memory")
}

// quoted finds the name in a mistake of package receiver: producer "shop": ..., handler "shop/a": ...
var quoted = regexp.MustCompile(`^(producer|handler)s? "([^"]*)"`)

// rehearse opens a receiver over a store that keeps nothing and closes it again, so that every mistake that
// only Open finds is found before anything is touched.
func (p *plan) rehearse() usage.Errors {
	c := p.Config
	c.Store = dedup.NewMemory(dedup.MemoryOptions{})
	c.Logger = slog.New(slog.DiscardHandler)
	rx, err := receiver.Open(c)
	if err == nil {
		err = errors.Join(rx.Close(), c.Store.Close())
	}
	if err == nil {
		return nil
	}
	var found usage.Errors
	for line := range strings.Lines(err.Error()) {
		m := &usage.Error{At: p.placeOf(line), What: usage.OneLine(line)}
		if strings.Contains(line, "takes its events alone") {
			m.Hint = "forward answers for producers of scheme rfc9421: with mode: store it is one handler among others"
		}
		if what, _, ok := strings.Cut(m.What, ": set Config.URL"); ok { // that is for programs in Go
			m.What, m.Hint = what, "write the public base at the top of the file, as in url: https://hooks.example"
		}
		found = append(found, m)
	}
	return found
}

// placeOf returns where the producer or handler of a mistake stands.
func (p *plan) placeOf(line string) usage.Place {
	m := quoted.FindStringSubmatch(line)
	if m == nil {
		return usage.Place{File: p.settings.file, Line: 1}
	}
	for i, name := range p.names {
		if m[1] == "handler" && name == m[2] {
			return p.settings.Handlers[i].Node.at
		}
	}
	for i := range p.settings.Producers {
		if m[1] == "producer" && p.settings.Producers[i].Name == m[2] {
			return p.settings.Producers[i].at
		}
	}
	return usage.Place{File: p.settings.file, Line: 1}
}
