package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/receiver"
)

// The bounds of connections and of the heads of requests.
const (
	DefaultHead          = 16 << 10
	minHead              = 8 << 10
	maxHead              = 1 << 20
	defaultHeaderTimeout = 10 * time.Second
	defaultIdleTimeout   = 2 * time.Minute
	// headSlack is what net/http reads of a head of HTTP/1 beyond http.Server.MaxHeaderBytes.
	headSlack = 4 << 10
	// fewDescriptors is the limit of open files below which serve warns.
	fewDescriptors = 4096
)

// OperationsOff is the address that serves no operations port.
const OperationsOff = "off"

// checkPorts judges where deliveries and operations are served.
func (c *Settings) checkPorts() (found usage.Errors) {
	add := func(setting, hint, what string) {
		found = append(found, &usage.Error{At: c.Node.place(setting), What: what, Hint: hint})
	}
	if !validAddress(c.Listen) {
		add("listen", "write 127.0.0.1:8080, or :8080 for all addresses", "listen is no address: "+usage.OneLine(c.Listen))
	} else if c.TLS == nil && !c.InsecureHTTP && len(c.TrustedProxies) == 0 && !IsLoopback(c.Listen) {
		add("listen", "add tls: {cert_file: ..., key_file: ...}, or trusted_proxies, or insecure_http: true where nobody can listen in",
			"deliveries would come over HTTP without TLS from beyond this machine")
	}
	if _, unix := c.UnixPath(c.Operations); !unix && c.Operations != OperationsOff {
		switch {
		case !validAddress(c.Operations):
			add("operations", "write 127.0.0.1:8081, unix:eyelet.sock, or off", "operations is no address: "+usage.OneLine(c.Operations))
		case c.Operations == c.Listen && !strings.HasSuffix(c.Listen, ":0"):
			add("operations", "choose another port", "listen and operations are the same address")
		case c.OperationsTLS == nil && !c.InsecureHTTP && !IsLoopback(c.Operations):
			add("operations", "add operations_tls: {cert_file: ..., key_file: ...}, or insecure_http: true where nobody can listen in",
				"the token and the events of the operations port would go over HTTP without TLS beyond this machine")
		}
	} else if c.OperationsTLS != nil {
		add("operations_tls", "leave it out", "operations_tls has no meaning for operations: "+usage.OneLine(c.Operations))
	}
	for setting, t := range map[string]*TLS{"tls": c.TLS, "operations_tls": c.OperationsTLS} {
		if t != nil && (t.CertFile == "" || t.KeyFile == "") {
			add(setting, "", setting+" needs a cert_file and a key_file")
		}
	}
	if c.HTTP2 && c.TLS == nil {
		add("http2", "leave it out: a proxy speaks HTTP/2 to producers by itself", "http2 has no meaning without tls")
	}
	return found
}

func validAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// loopback reports whether only this machine can reach the address.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// unixPath returns the path of the address of a Unix socket, relative to the configuration file.
func (c *Settings) UnixPath(address string) (path string, ok bool) {
	path, ok = strings.CutPrefix(address, "unix:")
	return c.Path(path), ok && path != ""
}

// connections are the limits of the connections of deliveries.
func (c *Settings) ConnectionLimits() receiver.Limits {
	l := c.Limits
	return receiver.Limits{
		Connections: l.Connections, PerAddress: l.ConnectionsPerAddress, TrustedProxies: c.TrustedProxies, HeadBytes: int64(l.HeadBudget),
	}.WithDefaults()
}

// headerBytes is http.Server.MaxHeaderBytes for the limit of heads.
func (c *Settings) HeaderBytes() int {
	head := int(cmp.Or(c.Limits.Head, DefaultHead))
	if c.HTTP2 {
		return head // HTTP/2 has no slack
	}
	return head - headSlack
}

// fewDescriptors warns where the process may have few files open.
func (c *Settings) DescriptorWarnings(limit int) (warnings []string) {
	n := c.ConnectionLimits().Connections
	if limit < fewDescriptors {
		warnings = append(warnings, fmt.Sprintf("the process may have %d files open, and so %d connections of producers at once: "+
			"raise the limit to %d or more (ulimit -n, or LimitNOFILE= of systemd)", limit, n, fewDescriptors))
	}
	if n > limit/4*3 {
		warnings = append(warnings, fmt.Sprintf("limits.connections is %d, and the process may have %d files open: the store needs a part of them", n, limit))
	}
	return warnings
}

// viaName is our name in the field Via (RFC 9110 section 7.6.3): that of the configuration, or a pseudonym that stays the
// same over restarts and differs between receivers, on one machine and on several, so that two in a row do not take each
// other for themselves. It tells nothing about the machine.
func (c *Settings) viaName() string {
	if c.Via != "" {
		return c.Via
	}
	host, _ := os.Hostname() // without a name the rest has to do
	_, dir, _ := c.StoreKind()
	sum := sha256.New()
	for _, part := range []string{host, c.URL, c.Listen, dir, c.File} {
		_, _ = sum.Write(append([]byte(part), 0)) // never fails
	}
	return "eyelet-" + hex.EncodeToString(sum.Sum(nil)[:4])
}
