package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// ACME orders the certificates of the port of deliveries from a certificate authority.
type ACME struct {
	Node  *conf.Node
	Hosts []string `conf:"hosts,nonempty"` // the names of the certificates
	Email string   `conf:"email"`          // for messages of the authority
	// URL is that of the authority. Defaults to Let's Encrypt's.
	URL string `conf:"url"`
}

// dnsName matches a name of two labels or more that an authority can check, in lower case.
var dnsName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// checkACME validates the setting acme.
func checkACME(s *Settings) (found usage.Errors) {
	if s.ACME == nil {
		return nil
	}
	at := s.ACME.Node.Place
	if len(s.ACME.Hosts) == 0 {
		found.Add(s.Place("acme"), "write the name of this machine in the URLs of your producers", "acme has no hosts")
	}
	for _, host := range s.ACME.Hosts {
		if _, err := netip.ParseAddr(host); err == nil || !dnsName.MatchString(host) {
			found.Add(at("hosts"), "write a DNS name in lower case, such as hooks.example.com, without a port",
				"acme.hosts: %q is no name of a certificate", host)
		}
	}
	if u, err := url.Parse(s.ACME.URL); s.ACME.URL != "" &&
		(err != nil || u.Scheme != "https" || u.Host == "") {
		found.Add(at("url"), "leave it out for Let's Encrypt", "acme.url is no https URL: %s",
			s.ACME.URL)
	}
	if s.TLS != nil {
		found.Add(s.Place("acme"), "leave one of them out", "tls and acme both have the certificate of listen")
	}
	if isPostgres(s.Store) {
		found.Add(s.Place("acme"), "let the load balancer before the receivers have the certificate, or write tls",
			"acme with a store in PostgreSQL: each of several receivers would order, and the authority reaches one")
	}
	return found
}

// acmeWarnings warns of an acme that probably fails.
func acmeWarnings(s *Settings) (found usage.Errors) {
	if s.ACME == nil {
		return nil
	}
	if _, port, err := net.SplitHostPort(s.Listen); err == nil && port != "443" {
		found.Add(s.Place("acme"), "write listen: :443, or forward that port",
			"the authority connects to port 443 of each host, and listen is %s", s.Listen)
	}
	if u, err := url.Parse(s.URL); err == nil && u.Host != "" && !slices.Contains(s.ACME.Hosts, u.Hostname()) {
		found.Add(s.Place("acme"), "add it to acme.hosts", "url names the host %s, which will have no certificate",
			u.Hostname())
	}
	return found
}
