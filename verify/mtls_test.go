package verify

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", Ed25519)
	cert, other := certificate(t, p, "client.example"), certificate(t, p, "other.example")
	sum := sha256.Sum256(cert.Raw)
	fingerprint := strings.ToUpper(hex.EncodeToString(sum[:]))
	connection := func(c *x509.Certificate, checked bool) *tls.ConnectionState {
		state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
		if checked {
			state.VerifiedChains = [][]*x509.Certificate{{c}}
		}
		return state
	}
	byName, byPrint := &MutualTLS{Names: []string{"client.example"}}, &MutualTLS{Fingerprints: []string{fingerprint}}
	cases := []struct {
		name   string
		scheme *MutualTLS
		state  *tls.ConnectionState
		code   Code
	}{
		{"by name", byName, connection(cert, true), ""},
		{"by fingerprint", byPrint, connection(cert, true), ""},
		{"by fingerprint, chain not checked", byPrint, connection(cert, false), ""},
		{"by name, chain not checked", byName, connection(cert, false), CertUntrusted},
		{"both configured, the name only, chain not checked",
			&MutualTLS{Names: []string{"other.example"}, Fingerprints: []string{fingerprint}},
			connection(other, false), CertUntrusted},
		{"another client", byName, connection(other, true), CredentialsMismatch},
		{"another client, by fingerprint", byPrint, connection(other, true), CredentialsMismatch},
		{"no certificate", byName, &tls.ConnectionState{}, CredentialsMissing},
		{"no TLS", byName, nil, CredentialsMissing},
	}
	for _, c := range cases {
		r := bearer("")
		r.TLS = c.state
		id, err := c.scheme.Verify(r, noBody)
		if CodeOf(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
		if err == nil && (id.Signed != nil || len(id.Covered) != 0) {
			t.Errorf("%s: a connection binds no bytes: %+v", c.name, id)
		}
		if err == nil {
			if late := (Tolerance{}).Check(id, cert.NotAfter.Add(time.Second)); CodeOf(late) != CertExpired {
				t.Errorf("%s: after the certificate's end: %v", c.name, late)
			}
		}
	}
}

// DNS names have no case (RFC 9525 section 6.3); a path of a URI has.
func TestMutualTLSComparesNamesByTheirKind(t *testing.T) {
	t.Parallel()
	uri := func(text string) []*url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return []*url.URL{u}
	}
	common := pkix.Name{CommonName: "Client.example"}
	for _, c := range []struct {
		name     string
		accepted string
		cert     x509.Certificate
		code     Code
	}{
		{"DNS, capitals in the certificate", "client.example",
			x509.Certificate{DNSNames: []string{"Client.Example"}}, ""},
		{"DNS, capitals in the setting", "CLIENT.example",
			x509.Certificate{DNSNames: []string{"x", "client.example"}}, ""},
		{"another DNS name", "client.example", x509.Certificate{DNSNames: []string{"clients.example"}},
			CredentialsMismatch},
		{"URI", "spiffe://example/Client", x509.Certificate{URIs: uri("spiffe://example/Client")}, ""},
		{"URI in another case", "spiffe://example/client", x509.Certificate{URIs: uri("spiffe://example/Client")},
			CredentialsMismatch},
		{"common name", "Client.example", x509.Certificate{Subject: common}, ""},
		{"common name in another case", "client.example", x509.Certificate{Subject: common}, CredentialsMismatch},
		{"common name beside another name", "Client.example",
			x509.Certificate{Subject: common, DNSNames: []string{"other.example"}}, CredentialsMismatch},
	} {
		r := bearer("")
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{&c.cert},
			VerifiedChains: [][]*x509.Certificate{{&c.cert}}}
		if _, err := (&MutualTLS{Names: []string{c.accepted}}).Verify(r, noBody); CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
	}
}

func TestMutualTLSThroughATrustedProxyOnly(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", Ed25519)
	cert := certificate(t, p, "client.example")
	text := func(c *x509.Certificate) string {
		return url.PathEscape(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})))
	}
	scheme := &MutualTLS{
		Names: []string{"client.example"}, ProxyHeader: "Client-Cert",
		Trusted: func(r *http.Request) bool { return r.RemoteAddr == "192.0.2.10:443" },
	}
	escaped := text(cert)
	for name, c := range map[string]struct {
		from, value string
		code        Code
	}{
		"RFC 9440":             {"192.0.2.10:443", ":" + base64.StdEncoding.EncodeToString(cert.Raw) + ":", ""},
		"escaped PEM":          {"192.0.2.10:443", escaped, ""},
		"from another address": {"192.0.2.11:443", escaped, CredentialsMissing},
		"nothing":              {"192.0.2.10:443", "", CredentialsMissing},
		"no certificate":       {"192.0.2.10:443", ":AAAA:", CertUntrusted},
		"too long":             {"192.0.2.10:443", escaped + strings.Repeat("x", maxProxiedCert), CertUntrusted},
		"another client":       {"192.0.2.10:443", text(certificate(t, p, "other.example")), CredentialsMismatch},
		"an invalid escape":    {"192.0.2.10:443", "%zz", CertUntrusted},
	} {
		r := bearer("")
		r.RemoteAddr = c.from
		if c.value != "" {
			r.Header.Set("Client-Cert", c.value)
		}
		if _, err := scheme.Verify(r, noBody); CodeOf(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
	r := bearer("")
	r.RemoteAddr = "192.0.2.10:443"
	r.Header.Add("Client-Cert", escaped)
	r.Header.Add("Client-Cert", escaped)
	if _, err := scheme.Verify(r, noBody); CodeOf(err) != AmbiguousField {
		t.Errorf("two fields: %v", err)
	}
}

func TestMutualTLSChecksItsDescription(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*MutualTLS{
		"no client": {}, "an empty name": {Names: []string{""}}, "a short fingerprint": {Fingerprints: []string{"ab"}},
		"a header that any client can send": {Names: []string{"a"}, ProxyHeader: "Client-Cert"},
		"a proxy without a header":          {Names: []string{"a"}, Trusted: func(*http.Request) bool { return true }},
	} {
		if m.Check() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
