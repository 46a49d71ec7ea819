package verify

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"
)

// MutualTLS accepts connections of clients with one of the expected certificates. It proves who
// called and nothing about the bytes: Identity.Signed is nil and nothing is covered.
//
// The certificate is that of the connection (RFC 8446 section 4.3.2), or, behind a proxy that
// terminates TLS, the one that the proxy writes into ProxyHeader. Its chain must already be
// checked: Verify requires a verified chain of the connection, and relies on the operator for
// the proxy.
//
// Refusals: credentials_missing without a certificate, cert_untrusted if its chain was not
// checked, credentials_mismatch for another client. Its validity period is in the identity.
type MutualTLS struct {
	// Names are the accepted DNS or URI names of the certificate, or its common name if it has
	// no alternative name. DNS names are equal without regard to case (RFC 9525 section 6.3),
	// the others octet for octet.
	Names []string `conf:"names"`
	// Fingerprints are accepted SHA-256 digests of the certificate in hex. Names or Fingerprints
	// are required.
	Fingerprints []string `conf:"fingerprints"`
	// ProxyHeader is the field in which the proxy passes the client's certificate: PEM with
	// percent-encoding (nginx, Envoy's "Cert=") or the structured field of RFC 9440 section
	// 2.2. The proxy must remove the field from client requests. Defaults to none.
	ProxyHeader string `conf:"header"`
	// Trusted reports whether the proxy sent a request; otherwise the field is ignored.
	// Required with ProxyHeader.
	Trusted func(*http.Request) bool
}

// Check reports all errors of the description.
func (m *MutualTLS) Check() error {
	var errs errorList
	errs.addIf(len(m.Names) == 0 && len(m.Fingerprints) == 0,
		"mtls: no name and no fingerprint of a client's certificate")
	errs.addIf(slices.Contains(m.Names, ""), "mtls: a name is empty")
	for _, fingerprint := range m.Fingerprints {
		raw, err := hex.DecodeString(fingerprint)
		errs.addIf(err != nil || len(raw) != sha256.Size, "mtls: a fingerprint is not the hex of a SHA-256")
	}
	errs.addIf((m.ProxyHeader == "") != (m.Trusted == nil), "mtls: ProxyHeader and Trusted must be set together")
	return errors.Join(errs...)
}

// Verify implements [Scheme].
func (m *MutualTLS) Verify(r *http.Request, _ func() ([]byte, error)) (Identity, error) {
	if err := m.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	cert, err := m.client(r)
	if err != nil {
		return Identity{}, err
	}
	fingerprint, pinned := m.fingerprint(cert)
	if !pinned && !m.named(cert) {
		return Identity{}, &Error{Code: CredentialsMismatch, Component: "certificate"}
	}
	return Identity{
		KeyID: fingerprint[:16], NotBefore: cert.NotBefore, Expires: cert.NotAfter, ExpiredCode: CertExpired,
	}, nil
}

func (m *MutualTLS) fingerprint(cert *x509.Certificate) (digits string, pinned bool) {
	sum := sha256.Sum256(cert.Raw)
	digits = hex.EncodeToString(sum[:])
	return digits, slices.ContainsFunc(m.Fingerprints, func(p string) bool { return strings.EqualFold(p, digits) })
}

func (m *MutualTLS) named(cert *x509.Certificate) bool {
	for _, name := range cert.DNSNames {
		if slices.ContainsFunc(m.Names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return true
		}
	}
	for _, uri := range cert.URIs {
		if slices.Contains(m.Names, uri.String()) {
			return true
		}
	}
	return len(cert.DNSNames)+len(cert.URIs) == 0 && slices.Contains(m.Names, cert.Subject.CommonName)
}

func (m *MutualTLS) client(r *http.Request) (*x509.Certificate, error) {
	if m.ProxyHeader != "" && m.Trusted(r) {
		return m.proxied(r)
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, &Error{Code: CredentialsMissing, Component: "certificate"}
	}
	if len(r.TLS.VerifiedChains) == 0 {
		// Without a chain only a fingerprint proves the certificate.
		if _, pinned := m.fingerprint(r.TLS.PeerCertificates[0]); !pinned {
			return nil, &Error{Code: CertUntrusted, Err: errors.New("the server did not check the certificate's chain")}
		}
	}
	return r.TLS.PeerCertificates[0], nil
}

const maxProxiedCert = 16 << 10

func (m *MutualTLS) proxied(r *http.Request) (*x509.Certificate, error) {
	name := strings.ToLower(m.ProxyHeader)
	value, _, err := field(r, textproto.CanonicalMIMEHeaderKey(m.ProxyHeader))
	switch {
	case err != nil:
		return nil, &Error{Code: AmbiguousField, Component: name}
	case value == "":
		return nil, &Error{Code: CredentialsMissing, Component: name}
	}
	if cert := parseProxied(value); cert != nil {
		return cert, nil
	}
	return nil, &Error{Code: CertUntrusted, Component: name, Err: errors.New("not a certificate")}
}

// parseProxied reads a certificate as proxies write it, or returns nil.
func parseProxied(value string) *x509.Certificate {
	if len(value) > maxProxiedCert {
		return nil
	}
	var der []byte
	if strings.HasPrefix(value, ":") {
		if item, err := httpsfv.UnmarshalItem([]string{value}); err == nil {
			der, _ = item.Value.([]byte)
		}
	} else if text, err := url.PathUnescape(value); err == nil {
		if block, _ := pem.Decode([]byte(text)); block != nil && block.Type == "CERTIFICATE" {
			der = block.Bytes
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil
	}
	return cert
}

// Binds implements [Binder]: a connection's certificate binds nothing.
func (m *MutualTLS) Binds() Binding { return Binding{} }
