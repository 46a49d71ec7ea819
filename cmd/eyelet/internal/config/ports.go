package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/receiver"
)

const (
	minHead        = 8 << 10
	maxHead        = 1 << 20
	fewDescriptors = 4096  // the limit of open files below which serve warns
	operationsOff  = "off" // the value of operations for no operations port
)

var prefixForm = regexp.MustCompile(`^(?:/[A-Za-z0-9_-]+)+$`)

// operationsPaths are the first segments of the other paths of the operations port.
var operationsPaths = map[string]bool{
	"events": true, "tail": true, "targets": true, "store": true, "metrics": true, "healthz": true, "readyz": true,
	"producers": true, "health": true, "jobs": true, "refused": true, "reload": true,
}

// checkPorts validates the addresses for deliveries and operations, and their TLS.
func (s *Settings) checkPorts() (found usage.Errors) {
	add := func(setting, hint, what string) { found.Add(s.Place(setting), hint, "%s", what) }
	if !validAddress(s.Listen) {
		add("listen", "write 127.0.0.1:8080, or :8080 for all addresses", "listen is not an address: "+s.Listen)
	} else if !s.HasTLS() && !s.InsecureHTTP && len(s.TrustedProxies) == 0 && !httpserver.IsLoopback(s.Listen) {
		add("listen",
			"add tls: {cert_file: ..., key_file: ...}, or acme: {hosts: [...]}, or trusted_proxies, "+
				"or insecure_http: true on a private network",
			"deliveries would come over HTTP without TLS from beyond this machine")
	}
	if s.ProxyProtocol {
		switch {
		case len(s.TrustedProxies) == 0:
			add("proxy_protocol", "name the proxies, as in trusted_proxies: [10.0.0.5/32]",
				"proxy_protocol needs trusted_proxies: anyone else could claim any address")
		case !s.HasTLS() && !s.InsecureHTTP && !httpserver.IsLoopback(s.Listen):
			add("proxy_protocol",
				"add tls or acme and let the proxy pass TLS on, or insecure_http: true on a private network",
				"with proxy_protocol deliveries without TLS are those of clients, not of the proxy")
		}
	}
	if _, unix := s.UnixPath(s.Operations); !unix && s.Operations != operationsOff {
		switch {
		case !validAddress(s.Operations):
			add("operations", "write 127.0.0.1:8081, unix:eyelet.sock, or off",
				"operations is not an address: "+s.Operations)
		case s.Operations == s.Listen && !strings.HasSuffix(s.Listen, ":0"):
			add("operations", "choose another port", "listen and operations are the same address")
		case s.OperationsTLS == nil && !s.InsecureHTTP && !httpserver.IsLoopback(s.Operations):
			add("operations",
				"add operations_tls: {cert_file: ..., key_file: ...}, or insecure_http: true on a private network",
				"the token and the events of the operations port would go over HTTP without TLS beyond this machine")
		}
	} else if s.OperationsTLS != nil {
		add("operations_tls", "leave it out", "operations_tls has no meaning for operations: "+s.Operations)
	}
	if prefix := s.Inspector.Prefix; !prefixForm.MatchString(prefix) || operationsPaths[strings.Split(prefix, "/")[1]] {
		found.Add(s.Inspector.Node.Place("prefix"), "write a path such as /ui or /eyelet/ui",
			"inspector.prefix is not a path of its own: %s", prefix)
	}
	for setting, t := range map[string]*TLS{"tls": s.TLS, "operations_tls": s.OperationsTLS} {
		if t != nil && (t.CertFile == "" || t.KeyFile == "") {
			add(setting, "", setting+" needs a cert_file and a key_file")
		}
	}
	if t := s.OperationsTLS; t != nil && t.ClientCAFile != "" {
		found.Add(t.Node.Place("ca_file"), "leave it out: a token authenticates the clients of that port",
			"operations_tls has no ca_file")
	}
	if t := s.TLS; t != nil && t.ClientCAFile != "" && !s.AsksForCertificates() {
		found.Add(t.Node.Place("ca_file"), "leave it out, or give a producer scheme: mtls",
			"tls.ca_file has no effect: no producer is authenticated by its certificate")
	}
	if s.HTTP2 && !s.HasTLS() {
		add("http2", "leave it out: a proxy offers HTTP/2 to producers itself", "http2 has no meaning without tls")
	}
	return found
}

// HasTLS reports whether the port of deliveries has a certificate.
func (s *Settings) HasTLS() bool { return s.TLS != nil || s.ACME != nil }

// AsksForCertificates reports whether a producer is authenticated by the client certificate of its
// connection.
func (s *Settings) AsksForCertificates() bool {
	return slices.ContainsFunc(s.Producers, func(p Producer) bool { return asksForCertificate(p.settings) })
}

func asksForCertificate(s schemeSettings) bool {
	switch c := s.(type) {
	case *mtlsSettings:
		return c.ProxyHeader == ""
	case *combinedSettings:
		return slices.ContainsFunc(c.Schemes, func(e schemeEntry) bool { return asksForCertificate(e.of.settings) })
	}
	return false
}

func validAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// UnixPath returns the path of unix:PATH. ok is false for other addresses.
func (s *Settings) UnixPath(address string) (path string, ok bool) {
	path, ok = strings.CutPrefix(address, "unix:")
	return s.Path(path), ok && path != ""
}

// ConnectionLimits are the limits of connections for deliveries.
func (s *Settings) ConnectionLimits() receiver.Limits {
	l := s.Limits
	return receiver.Limits{
		Connections: l.Connections, PerAddress: l.ConnectionsPerAddress,
		TrustedProxies: s.TrustedProxies,
	}.WithDefaults()
}

// HeaderBytes is http.Server.MaxHeaderBytes for limits.head.
func (s *Settings) HeaderBytes() int {
	head := int(s.Limits.Head)
	if s.HTTP2 {
		return head // HTTP/2 has no slack
	}
	return head - httpserver.HeadSlack
}

// DescriptorWarnings returns warnings if the limit of open files is low.
func (s *Settings) DescriptorWarnings(limit int) (warnings []string) {
	n := s.ConnectionLimits().Connections
	if limit < fewDescriptors {
		warnings = append(warnings, fmt.Sprintf("the process may have %d files open, "+
			"and so %d connections of producers at once: "+
			"raise the limit to %d or more (ulimit -n, or LimitNOFILE= of systemd)", limit, n, fewDescriptors))
	}
	if n > limit/4*3 {
		warnings = append(warnings, fmt.Sprintf("limits.connections is %d, and the process may have %d files open: "+
			"the store needs a part of them", n, limit))
	}
	return warnings
}

// viaName is the receiver's name in the field Via (RFC 9110 section 7.6.3): the configured one,
// or a pseudonym. The pseudonym is the same after a restart and reveals nothing about the
// machine. It differs between receivers, even on one machine, because a receiver refuses its
// own name as a loop.
func (s *Settings) viaName() string {
	if s.Via != "" {
		return s.Via
	}
	host, _ := os.Hostname() // if unknown, the other parts must do
	_, dir, _ := s.StoreKind()
	sum := sha256.New()
	for _, part := range []string{host, s.URL, s.Listen, dir, s.File} {
		_, _ = sum.Write(append([]byte(part), 0)) // never fails
	}
	return "eyelet-" + hex.EncodeToString(sum.Sum(nil)[:4])
}
